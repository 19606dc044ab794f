// How long a codec's tensors travel dense, where ranks have seen different numbers of steps.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "ops/compression/residuals.h"
#include "ops/execution/executor.h"
#include "tests/conformance/rank.h"
#include "tests/ops/counting_transport.h"
#include "tests/ops/local_fixture.h"

namespace ronde::test {
namespace {

constexpr std::int64_t kWarmUp = 5;
constexpr std::size_t kSide = 32, kCount = kSide * kSide;
constexpr std::size_t kTensors = 4, kRanks = 3;

using Tensors = std::vector<std::size_t>;  // of a bundle

std::string key_of(std::size_t tensor) { return std::string(1, static_cast<char>('a' + tensor)); }

/// A plane whose messages are counted, with nothing but its transport.
class CountedPlane final : public Communicator {
 public:
  CountedPlane(std::unique_ptr<Communicator> inner, WireLog& log, std::size_t& messages)
      : Communicator({.name = "local"}),
        inner_(std::move(inner)),
        counting_(*inner_->transport(), log),
        messages_(messages) {}
  ~CountedPlane() override { messages_ = counting_.traffic().messages; }
  CountedPlane(const CountedPlane&) = delete;
  CountedPlane& operator=(const CountedPlane&) = delete;

  Status run(const Work&, DeviceStream, const AbortToken&) override {
    return {Code::kUnsupported, "not here"};
  }
  [[nodiscard]] Transport* transport() noexcept override { return &counting_; }

 private:
  const std::unique_ptr<Communicator> inner_;
  CountingTransport counting_;
  std::size_t& messages_;
};

std::unique_ptr<Executor> executor_over(std::unique_ptr<Communicator> plane, const GroupSpec& group,
                                        std::shared_ptr<ResidualStore> residuals) {
  ExecutorOptions options;
  options.host.whole = std::move(plane);
  options.kernels = plain_kernels();
  options.residuals = std::move(residuals);
  options.rank = group.rank;
  options.size = group.size();
  return create_executor(std::move(options)).value();
}

/// One rank's bundle of tensors; null where it has joined.
struct Given {
  Given(const Tensors& tensors, bool has_joined) : joined(has_joined) {
    for (const std::size_t tensor : tensors) {
      values.emplace_back(kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        values.back()[i] = static_cast<float>(i * i % 97 + tensor);
      }
    }
  }
  Bundle bundle(const Tensors& tensors, const std::string& compression) {
    Bundle made = bundle_of(Collective::kAllreduce, DType::kFloat32);
    made.compression = compression;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      BundleTensor tensor;
      tensor.shape = {kSide, kSide};
      if (!joined) tensor.in = tensor.out = values[i].data();
      made.tensors.push_back(tensor);
      made.keys.push_back(key_of(tensors[i]));
    }
    return made;
  }
  [[nodiscard]] bool is_exact(const Tensors& tensors, int givers) const {
    const Given fresh(tensors, false);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (std::size_t i = 0; i < kCount; ++i) {
        if (values[t][i] != static_cast<float>(givers) * fresh.values[t][i]) return false;
      }
    }
    return true;
  }
  std::vector<std::vector<float>> values;
  bool joined;
};

/// The steps that all ranks of a job have seen, as each rank knows them.
struct Seen {
  std::array<std::array<std::int64_t, kTensors>, kRanks> steps{};
  std::array<bool, kTensors> warm{};

  /// True if a bundle must be dense; counts the step.
  bool step(const Tensors& tensors, std::size_t joined) {
    const bool known =
        std::all_of(tensors.begin(), tensors.end(), [&](std::size_t t) { return warm[t]; });
    std::int64_t passed = -1;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if (rank == joined) continue;
      std::int64_t fewest = steps[rank][tensors[0]];
      for (const std::size_t t : tensors) fewest = std::min(fewest, steps[rank][t]++);
      passed = std::max(passed, fewest);
    }
    if (known || passed < kWarmUp) return !known;
    for (const std::size_t t : tensors) warm[t] = true;
    return false;
  }
};

}  // namespace

TEST_CASE("A warm-up ends alike on all ranks, however bundles are fused and ranks join") {
  LocalFixture fixture;
  for (const std::string codec : {"onebit", "powersgd", "randomk"}) {
    CAPTURE(codec);
    fixture.run(kRanks, [&](int me, Backend& backend, const GroupSpec& group, Exchange& exchange) {
      const auto rank = static_cast<std::size_t>(me);
      const auto residuals = std::make_shared<ResidualStore>();
      Seen seen;
      for (std::size_t other = 0; other < kRanks; ++other) {
        for (std::size_t t = 0; t < kTensors; ++t) {
          seen.steps[other][t] = static_cast<std::int64_t>((other + 2 * t) % 3);
        }
      }
      for (std::size_t t = 0; t < kTensors; ++t) {
        residuals->find(0, key_of(t), kCount)
            ->set_steps(static_cast<std::uint64_t>(seen.steps[rank][t]));
      }
      const auto executor = executor_over(backend.open(group, exchange).value(), group, residuals);
      std::mt19937 random(7);  // the same on all ranks
      for (int step = 0; step < 60; ++step) {
        Tensors tensors;
        for (std::size_t t = 0; t < kTensors; ++t) {
          if (random() % 3 == 0) tensors.push_back(t);
        }
        if (tensors.empty()) continue;
        const std::size_t joined = random() % 4 == 0 ? random() % kRanks : kRanks;
        Given given(tensors, rank == joined);
        const Bundle bundle = given.bundle(tensors, codec + ":warmup=5");
        CHECK(executor->execute(bundle, *group.abort).ok());
        const bool dense = seen.step(tensors, joined);
        if (rank != joined) CHECK(given.is_exact(tensors, joined == kRanks ? 3 : 2) == dense);
      }
      CHECK(std::all_of(seen.warm.begin(), seen.warm.end(), [](bool warm) { return warm; }));
      CHECK(exchange.allgather("done").ok());
    });
  }
}

TEST_CASE("Ranks do not ask one another any more once they know that a warm-up is over") {
  const auto messages_of = [](const std::string& compression, int steps, bool loads) {
    LocalFixture fixture;
    WireLog log;
    std::array<std::size_t, 2> messages{};
    fixture.run(2, [&](int rank, Backend& backend, const GroupSpec& group, Exchange& exchange) {
      const auto residuals = std::make_shared<ResidualStore>();
      auto plane = std::make_unique<CountedPlane>(backend.open(group, exchange).value(), log,
                                                  messages[static_cast<std::size_t>(rank)]);
      const auto executor = executor_over(std::move(plane), group, residuals);
      for (int step = 0; step < steps; ++step) {
        Given given({0, 1}, false);
        std::string text = compression;
        if (loads && step == 10) {
          CHECK(residuals->load({}).ok());
          CHECK(residuals->loads(0) == 1);
        }
        if (residuals->loads(0) > 0) {
          text = since_load(*parse_compression(compression), residuals->loads(0));
        }
        CHECK(executor->execute(given.bundle({0, 1}, text), *group.abort).ok());
        const bool begins_anew = loads && step >= 10 && step < 15;
        CHECK(given.is_exact({0, 1}, 2) == (step < 5 || begins_anew));
      }
      CHECK(exchange.allgather("done").ok());
    });
    return messages[0];
  };
  const auto asked = [&](int steps, bool loads) {
    return messages_of("onebit:warmup=5", steps, loads);
  };
  const std::size_t once = asked(8, false) - asked(7, false);
  CHECK(once == asked(40, false) - asked(39, false));
  CHECK(once < asked(6, false) - asked(5, false));  // the step that finds out
  CHECK(asked(40, true) - asked(40, false) == asked(6, false) - 6 * once);
}

}  // namespace ronde::test
