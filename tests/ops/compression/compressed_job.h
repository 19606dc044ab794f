// Compressed allreduces of a bundle over ranks as threads, with residuals that stay.
#pragma once

#include <functional>

#include "ops/compression/compressed_allreduce.h"
#include "ops/kernels/factory.h"
#include "tests/ops/compression/codecs.h"
#include "tests/ops/counting_transport.h"

namespace ronde::test {

/// One bundle of tensors on every rank, and what came of it.
struct Job {
  int ranks = 2;
  std::vector<std::size_t> counts;
  std::string compression = "int8";
  double factor = 1.0;
  std::vector<std::size_t> columns;  // of each tensor; empty where none is a matrix
  bool keeps = false;  // residuals where there is error feedback, and what else is kept

  std::vector<std::vector<std::vector<float>>> results;             // by rank, by tensor
  std::vector<std::unique_ptr<ResidualStore>> stores;               // by rank
  std::vector<std::vector<std::optional<CompressionLoss>>> losses;  // by rank, by tensor
  std::vector<Traffic> traffic;

  std::function<std::vector<float>(int rank, std::size_t tensor, unsigned step)> given;

  [[nodiscard]] std::vector<float> input(int rank, std::size_t tensor, unsigned step) const {
    if (given) return given(rank, tensor, step);
    return gradients(counts[tensor], static_cast<unsigned>(rank) * 100 +
                                         static_cast<unsigned>(tensor) + 1000 * step);
  }

  void step(unsigned number = 0) {
    const auto size = static_cast<std::size_t>(ranks);
    results.assign(size, {});
    losses.assign(size, {});
    while (stores.size() < size) stores.push_back(std::make_unique<ResidualStore>());
    traffic = count_traffic(
        ranks, [&](Transport& transport, Scratch& scratch) { run(transport, scratch, number); });
  }

  void run(Transport& transport, Scratch& scratch, unsigned number) {
    const auto me = static_cast<std::size_t>(transport.rank());
    const auto kernels = create_kernels();
    const AbortToken abort;
    std::vector<CompressedTensor> tensors(counts.size());
    std::vector<CompressedPiece> pieces;
    std::vector<Segment> segments;
    auto& values = results[me];
    for (std::size_t t = 0; t < counts.size(); ++t) {
      values.push_back(input(transport.rank(), t, number));
      auto* data = reinterpret_cast<std::byte*>(values.back().data());
      pieces.push_back({data, data, counts[t], t, 0});
      segments.push_back({data, data, counts[t] * sizeof(float)});
    }
    const Scheme scheme(*parse_compression(compression));
    prepare(me, number, scheme.spec, tensors);
    CompressedWork compressed(scheme, tensors);
    std::vector<float> left(count_elements(pieces) * compressed.kept_floats());
    CompressedAllreduce work{
        .kernels = *kernels, .abort = abort, .compression = compressed, .pieces = pieces};
    work.factor = factor;
    work.left = keeps ? left.data() : nullptr;
    CHECK(compressed_allreduce(transport, work, scratch).ok());
    Work agreed;
    agreed.segments = segments;
    for (std::size_t t = 0; t < counts.size(); ++t) {
      losses[me].push_back(compressed.loss(t, agreed));
    }
    compressed.commit(agreed);
  }

  /// The work as the executor prepares it.
  void prepare(std::size_t me, unsigned number, const CompressionSpec& spec,
               std::vector<CompressedTensor>& tensors) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::string name = std::to_string(t);
      tensors[t].columns = columns.empty() ? 0 : columns[t];
      if (keeps && tensors[t].columns > 0 && spec.rank > 0) {
        tensors[t].basis = stores[me]->find(0, name + "#basis", columns[t] * spec.rank);
      }
      if (keeps && spec.error_feedback) {
        tensors[t].residual = stores[me]->find(0, name, counts[t], spec.residual);
        if (tensors[t].residual) tensors[t].residual->set_steps(number);
      }
      if (keeps && spec.momentum > 0) {
        tensors[t].momentum = stores[me]->find(0, name + "#momentum", counts[t], spec.residual);
      }
      tensors[t].step = number;
      tensors[t].turn = t;
      tensors[t].common_key = std::uint64_t{1000} * number + t;
    }
  }

  /// The residual of a tensor on a rank.
  [[nodiscard]] std::vector<float> left(int rank, std::size_t tensor) const {
    auto& store = *stores[static_cast<std::size_t>(rank)];
    const ResidualFormat format = parse_compression(compression)->residual;
    return store.find(0, std::to_string(tensor), counts[tensor], format)->values().value();
  }

  /// The exact result of an element.
  [[nodiscard]] std::vector<double> sums(std::size_t tensor, unsigned number = 0) const {
    std::vector<double> all(counts[tensor]);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto values = input(rank, tensor, number);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += factor * values[i];
    }
    return all;
  }
};

inline double error(const std::vector<float>& result, const std::vector<double>& exact) {
  double off = 0, whole = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    off += (result[i] - exact[i]) * (result[i] - exact[i]);
    whole += exact[i] * exact[i];
  }
  return whole == 0 ? std::sqrt(off) : std::sqrt(off / whole);
}

}  // namespace ronde::test
