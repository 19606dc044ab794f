// The fields of a request that ranks must agree on, and the texts of their disagreements.
#pragma once

#include <cstddef>
#include <string>

#include "core/protocol/request.h"

namespace ronde {

/// Whether two submissions of one operation agree. It compares neither names, call sites and
/// priorities nor extents that may differ.
bool same_signature(const Request& a, const Request& b) noexcept;

/// Whether a cached request can stand for another one. Both must know their program or neither: a
/// third request that fits one of them need not fit the other.
bool stands_for(const Request& cached, const Request& request) noexcept;

/// Equal for requests of the same signature.
std::size_t signature_hash(const Request& request) noexcept;

/// One rank's submission, for messages.
struct Submitted {
  int rank = 0;
  const Request& request;
};

/// The first difference of two submissions, with both ranks, values and call sites, such as `rank 0
/// submitted shape [2] (a.py:1), rank 1 submitted shape [3] (a.py:1)`; the lower rank first. Empty
/// where they do not differ.
std::string explain_difference(const Submitted& a, const Submitted& b);

}  // namespace ronde
