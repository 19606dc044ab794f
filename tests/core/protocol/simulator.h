// A deterministic world for the members of one process set: links with random delays (in order
// per link, in any order between links), ranks that submit when chance says so, ranks that die.
// After every event it checks what must always hold; the same seed gives the same run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/engine/queues/run_order.h"
#include "core/protocol/member.h"

namespace ronde {

/// One thing that a rank does.
struct Action {
  Request request;
  bool join = false;
  bool twice = false;  ///< Submits the name again at once: that must be refused.
};

struct SimulatorOptions {
  std::uint64_t seed = 1;
  std::vector<int> members;  ///< Ranks of the job.
  std::vector<int> hosts;    ///< Of each member.
  std::size_t cache_capacity = 8;
  /// Only every so many-th member compares what it sees with what all others did: large worlds.
  std::size_t check_every = 1;
  /// Half of what is agreed is paced, and the coordinator lets it go when chance says so.
  bool pace = false;
  /// Small operations carry their data, up to so many bytes of all ranks together. Some ranks keep
  /// theirs now and then.
  std::size_t payload_bytes = 0;
  bool disturb = false;  ///< Also delivers truncated and stray frames, which must be refused.
};

/// One item as a rank saw it.
struct Seen {
  std::size_t batch = 0;
  std::string name;  ///< Unnamed: "#" and the ordinal is not known here, so only "#".
  Collective kind = Collective::kAllreduce;
  Code code = Code::kOk;
  std::string message;
  int last_joined = -1;
  std::int32_t priority = 0;
  bool operator==(const Seen&) const = default;
};

class Simulator {
 public:
  explicit Simulator(SimulatorOptions options);

  /// Appends to what member number `member` does, in this order; a name that is in flight there is
  /// submitted again only when it is done, and nothing happens between a join and its end.
  void plan(std::size_t member, Action action);

  /// One event, if any is possible: an action, or the delivery of one frame.
  bool step();
  /// Steps until nothing is possible any more; large worlds by sweeps.
  void run();
  /// All events that are possible now, once each, in any order. False where there are none.
  bool sweep();
  /// From now on no frame reaches or leaves the member, and it does nothing.
  void kill(std::size_t member);

  /// Violations of the rules; must stay empty.
  [[nodiscard]] const std::vector<std::string>& violations() const { return violations_; }
  /// True if all members have ended their plans and nothing is in flight.
  [[nodiscard]] bool finished() const;
  /// The agreed operations, in the member's order.
  [[nodiscard]] const std::vector<Seen>& log(std::size_t member) const {
    return ranks_[member].log;
  }
  /// The names that the member ran, in its order.
  [[nodiscard]] const std::vector<std::string>& ran(std::size_t member) const {
    return ranks_[member].ran;
  }
  [[nodiscard]] Member& at(std::size_t member) { return *ranks_[member].member; }
  /// Frames that the member has sent and received.
  [[nodiscard]] std::size_t frames(std::size_t member) const { return ranks_[member].frames; }
  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] int rank_of(std::size_t member) const { return options_.members[member]; }

 private:
  /// The data of one operation: its instance of its name, in one epoch.
  using Instance = std::tuple<std::size_t, std::string, std::size_t>;
  struct Brought {
    float sum = 0;
    bool by_all = true;
  };
  struct InFlight {
    Action action;
    std::size_t instance = 0;
  };
  struct Rank {
    std::unique_ptr<Member> member;
    std::deque<Action> plan;
    std::map<std::uint64_t, InFlight> in_flight;   // by ticket
    std::map<std::string, std::size_t> submitted;  // by name: how often, in this epoch
    std::map<std::string, std::size_t> agreed;     // by name: how often, in this epoch
    std::vector<Seen> log;
    RunOrder<std::string> order;
    std::vector<std::string> ran;
    std::size_t batches = 0;
    std::size_t epoch = 0;  // number of joins agreed
    std::size_t frames = 0;
    bool joined = false;
    bool dead = false;
  };
  using Link = std::pair<std::size_t, std::size_t>;  // from, to

  [[nodiscard]] std::vector<std::size_t> actors() const;
  [[nodiscard]] std::vector<Link> busy_links() const;
  [[nodiscard]] bool can_act(const Rank& rank) const;
  void act(std::size_t member);
  void deliver(const Link& link);
  void disturb(std::size_t to, const std::vector<std::byte>& frame);
  bool release();
  void collect(std::size_t member);
  void run_released(std::size_t member, const Batch& batch);
  void see(std::size_t member, Agreed item);
  InlinePayload bring(std::size_t member, const Action& action, std::size_t instance);
  void check_ticket(std::size_t member, const Agreed& item);
  void check_result(std::size_t member, const Agreed& item, std::size_t instance);
  void check_all_have_submitted(std::size_t member, const std::string& name);
  void check_order(std::size_t member);
  [[nodiscard]] std::size_t index_of(int rank) const;
  void violate(std::size_t member, const std::string& what);
  std::size_t pick(std::size_t below);

  const SimulatorOptions options_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::map<Link, std::deque<std::vector<std::byte>>> links_;
  std::vector<Seen> order_;       // the longest log so far: all others must be its beginnings
  std::vector<std::string> ran_;  // likewise
  std::map<Instance, Brought> brought_;
  std::uint64_t next_ticket_ = 1;
  std::vector<std::string> violations_;
};

}  // namespace ronde
