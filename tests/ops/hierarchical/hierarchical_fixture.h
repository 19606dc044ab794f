// Ranks as threads on pretended hosts, for the hierarchical plane: both of its levels are local.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ops/hierarchical/communicator.h"
#include "ops/kernels/factory.h"
#include "tests/ops/local_fixture.h"

namespace ronde::test {

/// A test's changes of the communicators that it opens.
struct HierarchyTweaks {
  bool deterministic = false;
  std::size_t slice_bytes = kHostSliceBytes;
  /// Wraps what lies between hosts.
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> wrap;
};

/// Opens hierarchical communicators. `rounds` holds one for each host, shared by its ranks.
class HierarchicalBackend final : public Backend {
 public:
  using Rounds = std::vector<std::shared_ptr<ExchangeRounds>>;
  HierarchicalBackend(std::shared_ptr<LocalHub> hub, int rank, Rounds rounds,
                      HierarchyTweaks tweaks)
      : local_(create_local_backend(std::move(hub), rank)),
        rounds_(std::move(rounds)),
        tweaks_(std::move(tweaks)) {}

  std::string_view name() const noexcept override { return "hierarchical"; }
  Status viable(const GroupSpec&) override { return {}; }

  /// The parts of a hierarchy of the group.
  Result<HostParts> parts(const GroupSpec& group, Exchange& exchange) {
    HostParts parts;
    parts.layout = host_layout(group);
    RONDE_ASSIGN_OR_RETURN(parts.whole, local_->open(group, exchange));
    if (tweaks_.wrap) parts.whole = tweaks_.wrap(std::move(parts.whole));
    GroupSpec host = group;
    host.key = group.key + 1 + parts.layout.host;
    host.ranks = parts.layout.hosts[parts.layout.host];  // group ranks are job ranks here
    host.rank = parts.layout.local;
    LocalExchange inside(rounds_[parts.layout.host], host.rank);
    RONDE_ASSIGN_OR_RETURN(parts.inside, local_->open(host, inside));
    return parts;
  }

  Result<std::shared_ptr<Hierarchy>> hierarchy(const GroupSpec& group, Exchange& exchange) {
    RONDE_ASSIGN_OR_RETURN(HostParts made, parts(group, exchange));
    const AlgorithmOptions options{.kernels = create_kernels(),
                                   .deterministic = tweaks_.deterministic,
                                   .rank = group.rank,
                                   .size = group.size()};
    return std::make_shared<Hierarchy>(std::move(made), options, tweaks_.slice_bytes);
  }

  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange& exchange) override {
    RONDE_ASSIGN_OR_RETURN(const auto levels, hierarchy(group, exchange));
    std::unique_ptr<Communicator> between = levels->dense_between();
    return Result<std::unique_ptr<Communicator>>(
        std::make_unique<HierarchicalCommunicator>(levels, std::move(between)));
  }

 private:
  const std::unique_ptr<Backend> local_;
  const Rounds rounds_;
  const HierarchyTweaks tweaks_;
};

/// `host_of_rank` by rank: all numbers from 0 on, in the order of their lowest rank.
inline void run_on_hosts(const std::vector<int>& host_of_rank, const HierarchyTweaks& tweaks,
                         const RankBody& body) {
  const auto ranks = static_cast<int>(host_of_rank.size());
  const LocalJob job(ranks, host_of_rank);
  const auto hub = create_local_hub(ranks, host_of_rank);
  HierarchicalBackend::Rounds rounds;
  for (int host = 0; host <= *std::max_element(host_of_rank.begin(), host_of_rank.end()); ++host) {
    const auto size = std::count(host_of_rank.begin(), host_of_rank.end(), host);
    rounds.push_back(std::make_shared<ExchangeRounds>(static_cast<int>(size)));
  }
  run_ranks(ranks, [&](int rank) {
    HierarchicalBackend backend(hub, rank, rounds, tweaks);
    const auto exchange = job.exchange(rank);
    body(rank, backend, job.group(rank), *exchange);
  });
}

/// The conformance fixture: two hosts of unequal size, and three from 5 ranks on.
class HierarchicalFixture : public ConformanceFixture {
 public:
  explicit HierarchicalFixture(HierarchyTweaks tweaks = {}) : tweaks_(std::move(tweaks)) {}
  void run(int ranks, const RankBody& body) override {
    std::vector<int> hosts;
    hosts.reserve(static_cast<std::size_t>(ranks));
    const int per_host = ranks < 5 ? (ranks + 1) / 2 : 3;
    for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / per_host);
    run_on_hosts(hosts, tweaks_, body);
  }
  [[nodiscard]] double mean_ulps() const override { return 1; }  // a host's sum is rounded, too

 private:
  const HierarchyTweaks tweaks_;
};

/// The parts of two levels, on their way to an executor that composes them.
struct LevelParts final : Communicator {
  explicit LevelParts(HostParts made) : Communicator({.name = "parts"}), parts(std::move(made)) {}
  Status run(const Work&, DeviceStream, const AbortToken&) override {
    return {Code::kUnsupported, "nothing is composed yet"};
  }
  HostParts parts;
};

/// Ranks whose executors compose the levels themselves, so that they can compress between hosts.
class LevelPartsFixture : public HierarchicalFixture {
 public:
  void run(int ranks, const RankBody& body) override {
    HierarchicalFixture::run(
        ranks, [&](int rank, Backend& levels, const GroupSpec& group, Exchange& exchange) {
          PartsBackend backend(static_cast<HierarchicalBackend&>(levels));
          body(rank, backend, group, exchange);
        });
  }
  std::unique_ptr<Executor> make_executor(ExecutorOptions options, const GroupSpec& group,
                                          Exchange& exchange) const override {
    HostParts made = std::move(static_cast<LevelParts&>(*options.host.whole).parts);
    options.host = std::move(made);
    return HierarchicalFixture::make_executor(std::move(options), group, exchange);
  }

 private:
  class PartsBackend final : public Backend {
   public:
    explicit PartsBackend(HierarchicalBackend& levels) : levels_(levels) {}
    std::string_view name() const noexcept override { return levels_.name(); }
    Status viable(const GroupSpec&) override { return {}; }
    Result<std::unique_ptr<Communicator>> open(const GroupSpec& group,
                                               Exchange& exchange) override {
      RONDE_ASSIGN_OR_RETURN(HostParts made, levels_.parts(group, exchange));
      return std::unique_ptr<Communicator>(std::make_unique<LevelParts>(std::move(made)));
    }

   private:
    HierarchicalBackend& levels_;
  };
};

}  // namespace ronde::test
