// Requests that were agreed on before. Each has a slot, so that it travels as one bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/protocol/request.h"

namespace ronde {

/// The place of a slot's bit among words.
inline std::size_t word_of(int slot) noexcept { return static_cast<std::size_t>(slot) / 64; }
inline std::uint64_t mask_of(int slot) noexcept { return std::uint64_t{1} << (slot % 64); }

/// True if a report or an item of a batch may name the operation by its slot. Those that travel as
/// no bit do: without a name, with a weight that changes, or with their data. `ordinal`: of the
/// operation, 0 if named.
inline bool may_name_slot(const RequestPtr& cached, std::uint64_t ordinal) noexcept {
  return cached != nullptr && cached->name.empty() == (ordinal != 0);
}

/// Caches agreed requests by slot. Only batches change it, so it is the same on all ranks that have
/// applied the same batches. Threads: one at a time.
class ResponseCache {
 public:
  explicit ResponseCache(std::size_t capacity);

  /// The slot of a named operation, or -1, as for an empty name.
  [[nodiscard]] int find(const std::string& name) const;
  /// The slot of an operation, or -1. Unnamed: one that holds this signature and call site. Errors
  /// name the call site, so it must be the same.
  [[nodiscard]] int find(const Request& request) const;

  /// The content of a slot; null if it is empty or beyond the last one.
  [[nodiscard]] const RequestPtr& at(int slot) const noexcept;
  /// The content of a slot on a rank that has applied all batches up to `acked`.
  [[nodiscard]] RequestPtr at(int slot, std::uint64_t acked) const;

  /// Sequence of the batch that last changed a slot.
  [[nodiscard]] std::uint64_t last_change() const noexcept { return last_change_; }
  /// True if former contents are remembered.
  [[nodiscard]] bool has_former() const noexcept { return !former_.empty(); }
  /// Forgets former contents: all ranks have applied batch `acked`.
  void forget_before(std::uint64_t acked);

  /// Chooses a slot for a request that is not cached, or -1. It takes its name's slot, else a free
  /// one, else the least recently used one that `evictable` allows.
  [[nodiscard]] int choose(const Request& request,
                           const std::function<bool(int slot)>& evictable) const;
  /// Puts a request into a slot as part of batch `sequence`; the slot is at most slot_count().
  /// Returns whether another operation was evicted.
  bool assign(int slot, RequestPtr request, std::uint64_t sequence);
  /// Marks a slot as used most recently.
  void touch(int slot);
  /// The operation's place in the order of use; 0: it is not cached. Unnamed: that of the last one
  /// of this signature and call site.
  [[nodiscard]] std::uint64_t last_use(const Request& request) const;
  /// True if it is certain that `a` was used, and `b` never or before it. Ranks that do not touch
  /// slots know no order.
  [[nodiscard]] bool used_after(const Request& a, const Request& b) const;

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Slots that hold something: all below this number do.
  [[nodiscard]] std::size_t slot_count() const noexcept { return slots_.size(); }
  /// One bit per slot that holds a named operation without a weight: those that travel as bits.
  [[nodiscard]] std::span<const std::uint64_t> named() const noexcept { return named_; }
  /// One bit per slot that holds a named allreduce.
  [[nodiscard]] std::span<const std::uint64_t> allreduces() const noexcept { return allreduces_; }

 private:
  struct Slot {
    RequestPtr request;
    std::uint64_t since = 0;         // the batch that put it there
    std::uint64_t used = 0;          // counts the uses of all slots
    std::list<int>::iterator place;  // in `by_use_`
  };
  struct Former {
    int slot;
    RequestPtr request;
    std::uint64_t since;
    std::uint64_t until;  // the batch that replaced it
  };

  void retire(int slot, std::uint64_t sequence);
  void index(int slot);
  void use(int slot);

  const std::size_t capacity_;
  std::vector<Slot> slots_;
  std::vector<Former> former_;  // ascending in `until`
  std::unordered_map<std::string, int> by_name_;
  std::unordered_multimap<std::size_t, int> by_signature_;  // unnamed operations
  std::vector<std::uint64_t> named_;
  std::vector<std::uint64_t> allreduces_;
  std::uint64_t last_change_ = 0;
  std::uint64_t uses_ = 0;
  bool knows_order_ = false;
  std::list<int> by_use_;  // all slots, the least recently used first
};

}  // namespace ronde
