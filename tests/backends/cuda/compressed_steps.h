// Steps of compressed allreduces on every rank of a fixture, and all that they leave behind: what
// device memory and host memory must agree on bit for bit.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/compression/residuals.h"
#include "tests/backends/cuda/device_ranks.h"
#include "tests/conformance/rank.h"
#include "tests/support/plain_kernels.h"

namespace ronde::test {

/// The steps of groups of 2, 3 and 4 ranks.
struct CompressedSteps {
  std::string compression;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kAverage;
  std::vector<std::size_t> counts = {5003, 0, 700, 1, 63};  ///< Of each tensor.
  int steps = 3;
  double prescale = 1.0;
  std::size_t every = 1;  ///< Values between each so many are zeros.
  bool named = true;
  int joined = -1;         ///< Has joined: gives zeros and takes nothing.
  int without_room = -1;   ///< Has none for residuals.
  int not_finite_in = -1;  ///< In this step the first tensor of rank 1 has a NaN.
  std::vector<int> ranks = {2, 3, 4};
  std::map<int, std::string> changes = {};  ///< The compression from a step on.
  /// Before step 2, with the rank's residuals.
  std::function<void(ResidualStore&)> between = {};
  /// Steps whose tensors are in host memory, whatever the fixture's are.
  std::vector<int> on_host = {};
  std::size_t residual_limit = 0;  ///< In bytes; 0: none.
  std::size_t loss_steps = 0;      ///< As ExecutorOptions::loss_steps.
};

/// The results of one rank, as bits.
struct SeenSteps {
  std::vector<Bytes> results;             // of each tensor of each step
  std::vector<std::uint64_t> wire_bytes;  // of each step
  std::vector<std::tuple<std::string, std::uint64_t, Bytes>> residuals;  // at the end
  std::size_t residual_bytes = 0;
  std::vector<double> losses;  // of each tensor: what waits and the result
  std::string path;            // of the last step
};
using SeenByRank = std::map<std::pair<int, int>, SeenSteps>;  // size, rank

/// `Base` with residuals for each rank.
template <typename Base>
struct WithResiduals : Base {
  explicit WithResiduals(const CompressedSteps& of)
      : ranks(of.ranks),
        limit(of.residual_limit),
        without_room(of.without_room),
        loss_steps(of.loss_steps) {}
  [[nodiscard]] std::vector<int> rank_counts() const override { return ranks; }
  std::unique_ptr<Executor> make_executor(ExecutorOptions options, const GroupSpec& group,
                                          Exchange& exchange) const override {
    auto store = std::make_shared<ResidualStore>(group.rank == without_room ? 1 : limit);
    {
      const std::lock_guard lock(mutex);
      stores[{group.size(), group.rank}] = store;
    }
    options.residuals = std::move(store);
    options.loss_steps = loss_steps;
    return Base::make_executor(std::move(options), group, exchange);
  }
  std::shared_ptr<ResidualStore> store(const Rank& rank) const {
    const std::lock_guard lock(mutex);
    return stores.at({rank.size(), rank.rank()});
  }

  const std::vector<int> ranks;
  const std::size_t limit;
  const int without_room;
  const std::size_t loss_steps;
  mutable std::mutex mutex;
  mutable std::map<std::pair<int, int>, std::shared_ptr<ResidualStore>> stores;
};

inline Bytes bytes_of(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Unlike in every tensor and on every rank; small enough for 16 bits.
inline Bytes step_values(const CompressedSteps& steps, std::size_t tensor, int rank, int step) {
  std::vector<float> values(steps.counts[tensor]);
  const std::size_t seed = tensor * 31 + static_cast<std::size_t>(rank);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if ((i + seed) % steps.every != 0) continue;
    values[i] = static_cast<float>((i * 7919 + seed * 613) % 1000) * 0.125F - 62.4375F;
  }
  if (step == steps.not_finite_in && tensor == 0 && rank == 1) {
    values[values.size() / 2] = std::numeric_limits<float>::quiet_NaN();
  }
  Bytes bytes(values.size() * size_of(steps.dtype));
  plain_kernels()->cast(DType::kFloat32, values.data(), steps.dtype, bytes.data(), values.size());
  return bytes;
}

/// One step on one rank: its results.
inline std::vector<Bytes> run_step(const Rank& rank, const CompressedSteps& steps, int step) {
  std::vector<Bytes> values;
  Bundle bundle = bundle_of(Collective::kAllreduce, steps.dtype, steps.op);
  bundle.compression = steps.compression;
  for (const auto& [from, compression] : steps.changes) {
    if (step >= from) bundle.compression = compression;
  }
  bundle.prescale = steps.prescale;
  for (std::size_t i = 0; i < steps.counts.size(); ++i) {
    values.push_back(step_values(steps, i, rank.rank(), step));
  }
  for (std::size_t i = 0; i < steps.counts.size(); ++i) {
    BundleTensor tensor;
    tensor.name = "tensor";
    if (rank.rank() != steps.joined) tensor.in = tensor.out = values[i].data();
    tensor.shape = {static_cast<std::int64_t>(steps.counts[i])};
    bundle.tensors.push_back(tensor);
    bundle.keys.push_back(steps.named ? "tensor " + std::to_string(i) : std::string());
  }
  for (const int on_host : steps.on_host) {
    if (step == on_host) bundle.id = kHostBundle;
  }
  REQUIRE(rank.run(bundle).ok());
  return values;
}

template <typename Base>
SeenByRank seen_of(const CompressedSteps& steps) {
  SeenByRank all;
  WithResiduals<Base> fixture(steps);
  on_ranks(fixture, [&](const Rank& rank) {
    SeenSteps seen;
    const auto store = fixture.store(rank);
    for (int step = 0; step < steps.steps; ++step) {
      if (step == 2 && steps.between) steps.between(*store);
      for (Bytes& result : run_step(rank, steps, step)) seen.results.push_back(std::move(result));
      seen.wire_bytes.push_back(rank.executor().last_compression().wire_bytes);
    }
    const auto saved = store->save().value();
    for (const SavedResidual& one : saved) {
      seen.residuals.emplace_back(one.name, one.steps, bytes_of(one.values));
    }
    seen.residual_bytes = store->bytes();
    seen.path = rank.executor().last_path();
    for (const auto& [key, loss] : store->losses()) {
      seen.losses.insert(seen.losses.end(), {loss.lost, loss.result});
    }
    const std::lock_guard lock(fixture.mutex);
    all[{rank.size(), rank.rank()}] = std::move(seen);
  });
  return all;
}

/// Requires that `Base` gives the bits of tensors in host memory, and that its last step takes this
/// path.
template <typename Base, typename Host>
void check_same_bits(const CompressedSteps& steps, const std::string& path) {
  CAPTURE(steps.compression);
  CAPTURE(to_string(steps.dtype));
  const SeenByRank expected = seen_of<Host>(steps);
  const SeenByRank seen = seen_of<Base>(steps);
  REQUIRE(seen.size() == expected.size());
  for (const auto& [at, there] : expected) {
    const std::string where =
        std::to_string(at.first) + " ranks, rank " + std::to_string(at.second);
    CAPTURE(where);
    const SeenSteps& here = seen.at(at);
    CHECK(here.path == path);
    CHECK(here.results == there.results);
    CHECK(here.wire_bytes == there.wire_bytes);
    CHECK(here.residuals == there.residuals);
    CHECK(here.residual_bytes == there.residual_bytes);
    REQUIRE(here.losses.size() == there.losses.size());
    for (std::size_t i = 0; i < there.losses.size(); ++i) {
      CHECK(here.losses[i] == doctest::Approx(there.losses[i]));  // summed up in another order
    }
  }
}

}  // namespace ronde::test
