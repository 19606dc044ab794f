// The frames of the negotiation as plain values. wire.h turns them into bytes and back.
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
  std::uint64_t ordinal = 0;   ///< Unnamed operations: from 1.
  int slot = -1;               ///< Operations that travel as no bit: where `request` is cached.
  int rank = -1;               ///< The rank that submitted `request`.
  RequestPtr request;          ///< On the wire null where `slot` stands for it.
  Code code = Code::kOk;       ///< A problem seen in the subtree.
  std::string message;         ///< Of the problem.
  double weight = 0.0;         ///< Weighted operations: the sum of the subtree's weights.
  InlinePayload payload = {};  ///< Small operations: the subtree's inputs.

  [[nodiscard]] OpKey key() const { return {request->name, ordinal}; }
};

/// "A name was submitted again while it was in flight."
struct Notice {
  OpKey key;
  std::string message;
};

/// "An operation of mine has waited for too long." `fatal`: it should fail for that. `asks`: it has
/// waited just long enough that another rank may be waiting for this one.
struct Overdue {
  OpKey key;
  bool fatal = false;
  bool asks = false;
};

/// "Rank `rank` cannot submit that before this operation has ended": see BlocksUntilDone.
struct BlockedRank {
  int rank = -1;  ///< Negative: there is none.
  OpKey key;
  Collective kind = Collective::kAllreduce;
  std::string site;
  std::vector<OpKey> others;  ///< Some others that block the rank, not asked about.
};

/// One subtree's knowledge of an operation that has waited for too long.
struct StallFact {
  OpKey key;
  int kind = -1;             ///< A Collective; -1 where no rank of the subtree has submitted it.
  std::vector<int> missing;  ///< Ranks that have neither submitted it nor joined.
  std::uint64_t waited_ms = 0;
  BlockedRank
      blocked;  ///< What keeps one of the missing from submitting it, if anything is known to.
  /// Filled in by the root: when all ranks last agreed on it, see ResponseCache::last_use().
  std::uint64_t last_use = 0;
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
};

/// The next tick in the making.
struct TickDraft {
  TickFrame frame;
  bool is_empty = true;

  TickFrame& open() noexcept {
    is_empty = false;
    return frame;
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
};

/// Goes to the children. `order` is as in the schema.
struct BatchFrame {
  std::uint64_t sequence = 0;
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
};

/// Goes to the children: who lacks these operations?
struct QueryFrame {
  std::uint64_t query = 0;
  std::vector<OpKey> keys;
};

/// Goes to the children: for people.
struct WarningFrame {
  std::vector<std::string> texts;
};

/// An error for a frame that does not fit the receiver's state.
Status out_of_protocol(std::string_view what);
/// The operation failed before all ranks had submitted it.
BatchItem early_failure(const OpKey& key, Collective kind, Code code, std::string message);

}  // namespace ronde
