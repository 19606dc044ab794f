// What ranks must agree on about one operation, and how a disagreement reads.
#pragma once

#include <cstddef>
#include <string>

#include "core/protocol/request.h"

namespace ronde {

/// Whether two submissions of one operation fit together: all that must agree does. Names are not
/// compared; nor are call sites, priorities and extents that may differ by nature.
bool same_signature(const Request& a, const Request& b) noexcept;

/// Whether a cached request can be named in place of another: not where only one of the two knows
/// its program, as what fits both need not fit a third.
bool stands_for(const Request& cached, const Request& request) noexcept;

/// Equal for requests of the same signature.
std::size_t signature_hash(const Request& request) noexcept;

/// One rank's submission, for messages.
struct Submitted {
  int rank = 0;
  const Request& request;
};

/// Where two submissions differ first, with both ranks, values and call sites, such as
/// `rank 0 submitted shape [2] (a.py:1), rank 1 submitted shape [3] (a.py:1)`; the lower rank
/// first. Empty where they do not differ.
std::string explain_difference(const Submitted& a, const Submitted& b);

}  // namespace ronde
