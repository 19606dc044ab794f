// The identity of one operation inside a process set: its name, or its number among the unnamed
// ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/protocol/request.h"

namespace ronde {

/// Requests are shared between cache, reports and frames; they never change once shared.
using RequestPtr = std::shared_ptr<const Request>;

/// A name, or if it is empty the ordinal (from 1) among the unnamed operations.
struct OpKey {
  std::string name;
  std::uint64_t ordinal = 0;
  bool operator==(const OpKey&) const = default;
};

struct OpKeyHash {
  std::size_t operator()(const OpKey& key) const noexcept {
    return std::hash<std::string>{}(key.name) ^ (key.ordinal * 0x9E3779B97F4A7C15ULL);
  }
};

/// `allreduce "w"`, or `allreduce (unnamed, number 3)`.
std::string label(Collective kind, const OpKey& key);

}  // namespace ronde
