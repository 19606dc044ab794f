// The operations of this rank that are in flight, found by slot (the fast path) or by key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/protocol/request.h"

namespace ronde {

/// One submission of this rank.
struct OwnOperation {
  std::uint64_t ticket = 0;
  Request request;
  TimePoint submitted;
  TimePoint noted;        ///< When its lateness was last reported; `submitted` at first.
  bool given_up = false;  ///< This rank has asked the root to fail it for lateness.
};

/// Keeps this rank's operations that are in flight. Threads: one at a time.
class OwnOperations {
 public:
  /// Enters a named operation whose request the slot holds.
  void add(int slot, std::uint64_t ticket, const Request& request, TimePoint now);
  /// Enters any other operation.
  void add(const OpKey& key, std::uint64_t ticket, const Request& request, TimePoint now);

  /// The operation in flight, or null. Valid until the next change.
  [[nodiscard]] const OwnOperation* find(int slot) const noexcept;
  [[nodiscard]] const OwnOperation* find(const OpKey& key) const;

  /// True if any operation is found by key only.
  [[nodiscard]] bool has_keyed() const noexcept { return !by_key_.empty(); }

  /// Moves an operation's ticket and request to `into`; false where it is not in flight.
  bool take(int slot, Agreed& into);
  bool take(const OpKey& key, Agreed& into);

  /// The slot gets another use: its operation is found by name from now on.
  void leave_slot(int slot);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Calls `visit` for each operation, in no particular order.
  void for_each(const std::function<void(const OpKey&, OwnOperation&)>& visit);
  void for_each(const std::function<void(const OpKey&, const OwnOperation&)>& visit) const;

 private:
  std::vector<std::optional<OwnOperation>> by_slot_;
  std::unordered_map<OpKey, OwnOperation, OpKeyHash> by_key_;
  std::size_t size_ = 0;
};

}  // namespace ronde
