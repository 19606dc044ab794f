// Gloo's own collectives, for `--algorithm native` and for comparisons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/gloo/mesh.h"
#include "core/ports/backend.h"
#include "core/ports/reduce_kernels.h"

namespace ronde::gloo_backend {

/// Runs plain Work with Gloo's algorithms and Ronde's arithmetic. Threads: one at a time.
class GlooCollectives {
 public:
  GlooCollectives(std::shared_ptr<Mesh> mesh, std::shared_ptr<const ReduceKernels> kernels);

  [[nodiscard]] static SupportTable supported(bool has_kernels);

  /// Blocks. Throws what Gloo throws: call it inside Mesh::call.
  void run(const Work& work);

 private:
  void allreduce(const Work& work);
  void reduce(const Work& work);
  void broadcast(const Work& work);
  void allgather(const Work& work);
  void alltoall(const Work& work);
  void barrier();

  /// `in`, or a copy of it in scratch memory where it lies inside the output.
  std::byte* apart_from(const Segment& output, const std::byte* in, std::size_t bytes);

  const std::shared_ptr<Mesh> mesh_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  std::vector<std::byte> scratch_;
  std::uint32_t tag_ = 0;
};

}  // namespace ronde::gloo_backend
