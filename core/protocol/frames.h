// The frames of the negotiation as plain values. wire.h turns them into bytes and back, by the
// fields() of each: one list for both directions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/collective.h"
#include "core/base/status.h"
#include "core/protocol/inline_payload.h"
#include "core/protocol/request.h"

namespace ronde {

/// "All ranks of my subtree have submitted this operation."
struct Report {
  std::uint64_t ordinal = 0;  ///< Unnamed operations: from 1.
  int slot = -1;  ///< The slot that caches `request`, of operations that do not travel as bits.
  int rank = -1;  ///< The rank that submitted `request`.
  RequestPtr request;          ///< Does not travel where `slot` stands for it.
  Code code = Code::kOk;       ///< A problem seen in the subtree.
  std::string message;         ///< Of the problem.
  double weight = 0.0;         ///< Weighted operations: the sum of the subtree's weights.
  InlinePayload payload = {};  ///< Small operations: the subtree's inputs.

  [[nodiscard]] OpKey key() const { return {request->name, ordinal}; }

  static void fields(auto& wire, auto& self) {
    wire(self.ordinal, self.slot, self.rank, self.code, self.message, self.weight, self.payload);
    if (self.slot < 0) wire(self.request);
  }
};

/// "A name was submitted again while it was in flight."
struct Notice {
  OpKey key;
  std::string message;

  static void fields(auto& wire, auto& self) { wire(self.key, self.message); }
};

/// "An operation of mine has waited for too long." `fatal`: it should fail for that. `asks`: it has
/// waited just long enough that another rank may be waiting for this one.
struct Overdue {
  OpKey key;
  bool fatal = false;
  bool asks = false;

  static void fields(auto& wire, auto& self) { wire(self.key, self.fatal, self.asks); }
};

/// "Rank `rank` cannot submit that before this operation has ended": see BlocksUntilDone.
struct BlockedRank {
  int rank = -1;  ///< Negative: there is none.
  OpKey key;
  Collective kind = Collective::kAllreduce;
  std::string site;
  std::vector<OpKey> others;  ///< Some others that block the rank, not asked about.

  static void fields(auto& wire, auto& self) {
    wire(self.rank);
    if (self.rank >= 0) wire(self.key, self.kind, self.site, self.others);
  }
};

/// One subtree's knowledge of an operation that has waited for too long.
struct StallFact {
  OpKey key;
  int kind = -1;             ///< A Collective; -1 where no rank of the subtree has submitted it.
  std::vector<int> missing;  ///< Ranks that have neither submitted it nor joined.
  std::uint64_t waited_ms = 0;
  BlockedRank blocked;  ///< The operation that keeps a missing rank from submitting it, if known.
  /// Filled in by the root: when all ranks last agreed on it, see ResponseCache::last_use().
  std::uint64_t last_use = 0;

  static void fields(auto& wire, auto& self) {
    wire(self.key, self.kind, self.missing, self.waited_ms, self.blocked);
  }
};

/// Goes to the parent.
struct TickFrame {
  std::uint64_t acked = 0;           ///< The last batch that the sender has processed.
  std::uint32_t first_word = 0;      ///< Of `words` in the bit vector of all slots.
  std::vector<std::uint64_t> words;  ///< Cached named operations that the subtree is ready for.
  std::vector<Report> reports;
  std::vector<Notice> notices;
  std::vector<Overdue> overdue;
  std::uint64_t query = 0;  ///< Answers this query; 0: no answer.
  std::vector<StallFact> facts;
  int last_joined = -1;  ///< Not negative: the whole subtree has joined, this rank last.
  int leaver = -1;       ///< Not negative: this rank leaves the set.
  std::string farewell;  ///< Why it leaves; may be empty.

  void clear();
  static void fields(auto& wire, auto& self) {
    wire(self.acked, self.first_word, self.words, self.reports, self.notices, self.overdue,
         self.query, self.facts, self.last_joined, self.leaver, self.farewell);
  }
};

/// One agreed or failed operation. Exactly one of: cached (slot, no request), full (request, slot
/// where to cache it or -1), failed (code), joined (last_joined), closed (leaver).
struct BatchItem {
  int slot = -1;
  std::uint64_t ordinal = 0;
  RequestPtr request;
  std::string name;                          ///< Failed items.
  Collective kind = Collective::kAllreduce;  ///< Failed items.
  Code code = Code::kOk;
  std::string message;  ///< Failed items; closed: why the rank leaves, or empty.
  bool early = false;   ///< Failed items: not all ranks have submitted it.
  int last_joined = -1;
  int leaver = -1;
  double weight = 0.0;  ///< Weighted operations: the sum of all ranks' weights; never 0.
  /// Not empty: the result of an operation whose data came with the reports.
  std::vector<std::byte> result = {};

  static void fields(auto& wire, auto& self) {
    wire(self.slot, self.ordinal, self.request, self.name, self.kind, self.code, self.message,
         self.early, self.last_joined, self.leaver, self.weight, self.result);
  }
};

/// Goes to the children.
struct BatchFrame {
  std::uint64_t sequence = 0;
  /// 0 and above: the slot of a cached named operation. Below: -1 - the index of an item.
  std::vector<std::int32_t> order;
  std::vector<BatchItem> items;
  std::vector<std::int32_t> priorities;  ///< One for each entry of `order`, or none: all are 0.
  std::uint32_t released = 0;            ///< Batch::released.
  std::vector<std::uint64_t> launches;   ///< Batch::launches.

  [[nodiscard]] std::int32_t priority(std::size_t index) const noexcept {
    return priorities.empty() ? 0 : priorities[index];
  }
  /// True where it gives slots of the cache to other requests.
  [[nodiscard]] bool changes_cache() const noexcept;
  /// Appends an entry to `order`.
  void push(std::int32_t entry, std::int32_t priority);
  void clear();
  static void fields(auto& wire, auto& self) {
    wire(self.sequence, self.order, self.items, self.priorities, self.released, self.launches);
  }
};

/// Goes to the children: who lacks these operations?
struct QueryFrame {
  std::uint64_t query = 0;
  std::vector<OpKey> keys;

  static void fields(auto& wire, auto& self) { wire(self.query, self.keys); }
};

/// Goes to the children: for people.
struct WarningFrame {
  std::vector<std::string> texts;

  static void fields(auto& wire, auto& self) { wire(self.texts); }
};

/// A frame for another rank.
struct OutFrame {
  int to = 0;
  std::vector<std::byte> bytes;
};

/// An error for a frame that does not fit the receiver's state.
Status out_of_protocol(std::string_view what);
/// The operation failed before all ranks had submitted it.
BatchItem early_failure(const OpKey& key, Collective kind, Code code, std::string message);

}  // namespace ronde
