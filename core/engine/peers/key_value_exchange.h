// Small values that ranks exchange over the control channel while a group is set up.
//
// The values travel up a tree of hosts and down again (core/protocol/tree.h). So a rank sends to a
// few others only, and the number of rounds grows with the logarithm of the hosts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/wire_codec.h"
#include "core/engine/frames/frame.h"
#include "core/ports/topology.h"
#include "core/protocol/tree.h"

namespace ronde {

/// Names an exchange. Its ranks use the name for no other one.
struct ExchangeId {
  std::uint64_t key = 0;
  std::uint32_t round = 0;

  friend auto operator<=>(const ExchangeId&, const ExchangeId&) = default;
};

/// Runs the exchanges of this rank.
/// Threads: the driving thread, unless a member says otherwise.
class KeyValueExchange {
 public:
  using Outcome = Result<std::vector<std::string>>;

  /// `sender` outlives it.
  explicit KeyValueExchange(FrameSender& sender) noexcept
      : sender_(sender), topology_(sender.topology()) {}

  /// This rank gives its value. `ranks` contains it and is ascending.
  void begin(const ExchangeId& id, std::vector<int> ranks, std::string mine) RONDE_EXCLUDES(mutex_);
  /// Takes in a frame's payload. Malformed payloads are errors.
  Status on_frame(int from, std::uint64_t key, std::span<const std::byte> payload)
      RONDE_EXCLUDES(mutex_);
  /// Ends the exchanges that wait for a rank which has left.
  void on_left(int rank, const Status& reason) RONDE_EXCLUDES(mutex_);
  /// Asks the other ranks of an exchange for whom they wait.
  void ask_who_is_missing(const ExchangeId& id) RONDE_EXCLUDES(mutex_);

  /// Returns the outcome once there is one, and forgets the exchange. Threads: any.
  std::optional<Outcome> take(const ExchangeId& id) RONDE_EXCLUDES(mutex_);
  /// No caller waits for the outcome any more. Other ranks may still need this one. Threads: any.
  void abandon(const ExchangeId& id) RONDE_EXCLUDES(mutex_);
  /// The ranks that have not come to the exchange, as far as is known. `all`: nothing until every
  /// rank that was asked has answered. Threads: any.
  std::optional<std::vector<int>> missing(const ExchangeId& id, bool all) RONDE_EXCLUDES(mutex_);

 private:
  struct Question;
  struct Answer;
  using Values = std::map<int, std::string>;  // by rank

  /// One exchange as this rank sees it. It gathers the values of this rank's part of the tree, then
  /// takes those of all ranks, or an error. Values of children may come before begin().
  struct Round {
    std::vector<int> ranks;  // ascending, this one included; empty before begin()
    TreePlace place;
    Values values;                   // so far
    std::set<int> complete;          // children with all values of their part of the tree
    std::optional<Outcome> outcome;  // the values in the order of the ranks, once it has ended
    bool abandoned = false;          // the caller no longer waits for the outcome
    std::set<int> missing;
    int open_questions = 0;
    bool asked = false;

    [[nodiscard]] bool begun() const noexcept { return !ranks.empty(); }
    /// The last value has come from the parent, or to the root.
    void end();
    void take_answer(const std::vector<int>& more_missing, int more_questions);
  };

  Status on_values(const ExchangeId& id, int from, bool down, WireReader& reader)
      RONDE_REQUIRES(mutex_);
  Status on_failure(const ExchangeId& id, int from, WireReader& reader) RONDE_REQUIRES(mutex_);
  Status on_question(const ExchangeId& id, int from, WireReader& reader) RONDE_REQUIRES(mutex_);
  Status on_answer(const ExchangeId& id, WireReader& reader) RONDE_REQUIRES(mutex_);
  void advance(const ExchangeId& id, Round& round) RONDE_REQUIRES(mutex_);
  void end(const ExchangeId& id, Round& round) RONDE_REQUIRES(mutex_);
  void fail(const ExchangeId& id, Round& round, const Status& why, int except)
      RONDE_REQUIRES(mutex_);
  void send_values(int to, const ExchangeId& id, const Values& values, bool down);
  [[nodiscard]] bool is_valid(int rank) const;
  [[nodiscard]] TreePlace place_of(int rank, const std::vector<int>& ranks) const;
  [[nodiscard]] std::optional<Status> why_hopeless(const Round& round) const RONDE_REQUIRES(mutex_);
  [[nodiscard]] Answer look_for_missing(const ExchangeId& id, const Question& question, int from)
      RONDE_REQUIRES(mutex_);

  FrameSender& sender_;
  const Topology& topology_;
  Mutex mutex_;
  std::map<ExchangeId, Round> rounds_ RONDE_GUARDED_BY(mutex_);
  std::map<int, Status> left_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
