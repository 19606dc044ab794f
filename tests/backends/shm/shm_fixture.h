// Helpers of the shared-memory data plane's tests: plain kernels, and groups of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "backends/shm/factory.h"
#include "core/ports/backend.h"
#include "tests/support/local_exchange.h"

namespace ronde::test {

/// Sums and maxima of int32 and float32, and copies of bytes, one element at a time.
class ScalarKernels : public ReduceKernels {
 public:
  void reduce(const Reduction& what, std::span<const void* const> inputs, void* out,
              std::size_t count) const noexcept override {
    switch (what.dtype) {
      case DType::kInt32:
        return combine<std::int32_t>(what, inputs, out, count);
      case DType::kFloat32:
        return combine<float>(what, inputs, out, count);
      default:
        return combine<std::uint8_t>(what, inputs, out, count);
    }
  }
  void reduce_streaming(const Reduction& what, std::span<const void* const> inputs, void* out,
                        std::size_t count) const noexcept override {
    reduce(what, inputs, out, count);
  }
  void accumulate_fp32(const Reduction&, const float*, const void*, float*,
                       std::size_t) const noexcept override {}
  void cast(DType, const void*, DType, void*, std::size_t) const noexcept override {}
  std::size_t first_nonfinite(DType, const void*, std::size_t count, bool) const noexcept override {
    return count;
  }

 private:
  template <typename T>
  static void combine(const Reduction& what, std::span<const void* const> inputs, void* out,
                      std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      T value = load<T>(inputs.front(), i);
      for (const void* const input : inputs.subspan(1)) {
        const T next = load<T>(input, i);
        value = what.op == ReduceOp::kMax ? std::max(value, next) : static_cast<T>(value + next);
      }
      std::memcpy(static_cast<std::byte*>(out) + i * sizeof(T), &value, sizeof(T));
    }
  }
  template <typename T>
  static T load(const void* from, std::size_t i) noexcept {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(from) + i * sizeof(T), sizeof(T));
    return value;
  }
};

/// Opens `rank`'s side of the group of all ranks of `job`.
inline std::unique_ptr<Communicator> open_shm(const LocalJob& job, int rank,
                                              const ShmOptions& options = {}) {
  const auto backend = create_shm_backend(std::make_shared<ScalarKernels>(), options);
  const auto exchange = job.exchange(rank);
  auto group = backend->open(job.group(rank), *exchange);
  return group.ok() ? std::move(*group) : nullptr;
}

/// Sum over `segments`.
inline Work allreduce_of(std::span<const Segment> segments, DType dtype) {
  Work work;
  work.kind = Collective::kAllreduce;
  work.reduction.dtype = dtype;
  work.segments = segments;
  return work;
}

}  // namespace ronde::test
