// Small values that ranks exchange over the control channel while a group is set up.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace ronde {

/// Collects the values that have arrived. Threads: any.
class KeyValueExchange {
 public:
  /// Takes in a frame's payload: the round and the value. Malformed payloads are errors.
  Status on_frame(int from, std::uint64_t key, std::span<const std::byte> payload)
      RONDE_EXCLUDES(mutex_);
  /// The payload of a frame that carries `value` in `round`.
  static std::vector<std::byte> make_payload(std::uint32_t round, std::string_view value);

  /// The values of `ranks` in one round, once all are there; they are removed with it. The value
  /// of `self` is `mine`.
  std::optional<std::vector<std::string>> take(std::uint64_t key, std::uint32_t round,
                                               std::span<const int> ranks, int self,
                                               std::string_view mine) RONDE_EXCLUDES(mutex_);
  /// Those of `ranks` whose value has not arrived; for errors.
  std::vector<int> missing(std::uint64_t key, std::uint32_t round, std::span<const int> ranks,
                           int self) RONDE_EXCLUDES(mutex_);

 private:
  using Slot = std::tuple<std::uint64_t, std::uint32_t, int>;  // key, round, rank
  Mutex mutex_;
  std::map<Slot, std::string> values_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
