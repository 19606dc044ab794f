#include "backends/gloo/collectives.h"

#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>

#include <bit>
#include <numeric>
#include <utility>

namespace ronde::gloo_backend {
namespace {

// Below this Gloo's halving and doubling has fewer steps to pay for than its ring.
constexpr std::size_t kBcubeBytes = std::size_t{64} << 10;

/// Sets the buffers of a reduction. Gloo's options take element types. Only the width matters, as
/// Ronde reduces.
template <typename Options>
void set_buffers(Options& options, const Work& work, std::byte* out) {
  const Segment& data = work.segments.front();
  const auto set = [&]<typename Element>(Element*) {
    const std::size_t count = data.bytes / sizeof(Element);
    auto* const in = const_cast<std::byte*>(data.in);  // Gloo reads inputs only
    if (in != out) options.setInput(reinterpret_cast<Element*>(in), count);
    options.setOutput(reinterpret_cast<Element*>(out), count);
  };
  switch (size_of(work.reduction.dtype)) {
    case 1:
      return set(static_cast<std::uint8_t*>(nullptr));
    case 2:
      return set(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return set(static_cast<std::uint32_t*>(nullptr));
    default:
      return set(static_cast<std::uint64_t*>(nullptr));
  }
}

std::function<void(void*, const void*, const void*, std::size_t)> reducer(
    const ReduceKernels& kernels, const Reduction& reduction) {
  const Reduction plain{reduction.dtype, reduction.op, Scaling{}};
  return [&kernels, plain](void* out, const void* a, const void* b, std::size_t count) {
    const void* inputs[] = {a, b};
    kernels.reduce(plain, inputs, out, count);
  };
}

std::size_t sum(std::span<const std::size_t> values) {
  return std::accumulate(values.begin(), values.end(), std::size_t{0});
}

std::vector<std::int64_t> as_signed(std::span<const std::size_t> values) {
  return {values.begin(), values.end()};
}

}  // namespace

GlooCollectives::GlooCollectives(std::shared_ptr<Mesh> mesh,
                                 std::shared_ptr<const ReduceKernels> kernels)
    : mesh_(std::move(mesh)), kernels_(std::move(kernels)) {}

SupportTable GlooCollectives::supported(bool has_kernels) {
  return SupportTable::of([has_kernels](Collective kind, DType dtype, ReduceOp op) {
    switch (kind) {
      case Collective::kAllreduce:
      case Collective::kReduce:
        return has_kernels && is_defined(op, dtype);
      case Collective::kBroadcast:
      case Collective::kAllgather:
      case Collective::kAlltoall:
      case Collective::kBarrier:
        return true;
      default:
        return false;
    }
  });
}

void GlooCollectives::run(const Work& work) {
  ++tag_;
  if (work.kind == Collective::kBarrier) return barrier();
  if (work.kind == Collective::kAlltoall) return alltoall(work);
  if (total_bytes(work) == 0) return;
  switch (work.kind) {
    case Collective::kReduce:
      return reduce(work);
    case Collective::kBroadcast:
      return broadcast(work);
    case Collective::kAllgather:
      return allgather(work);
    default:
      return allreduce(work);
  }
}

void GlooCollectives::allreduce(const Work& work) {
  gloo::AllreduceOptions options(mesh_);
  const Segment& data = work.segments.front();
  const bool bcube =
      data.bytes <= kBcubeBytes && std::has_single_bit(static_cast<unsigned>(mesh_->size));
  options.setAlgorithm(bcube ? gloo::AllreduceOptions::Algorithm::BCUBE
                             : gloo::AllreduceOptions::Algorithm::RING);
  set_buffers(options, work, data.out);
  options.setReduceFunction(reducer(*kernels_, work.reduction));
  options.setTag(tag_);
  gloo::allreduce(options);
}

void GlooCollectives::reduce(const Work& work) {
  gloo::ReduceOptions options(mesh_);
  const Segment& data = work.segments.front();
  const bool root = work.root == mesh_->rank;
  if (!root) scratch_.resize(data.bytes);
  set_buffers(options, work, root ? data.out : scratch_.data());
  options.setReduceFunction(reducer(*kernels_, work.reduction));
  options.setRoot(work.root);
  options.setTag(tag_);
  gloo::reduce(options);
}

void GlooCollectives::broadcast(const Work& work) {
  gloo::BroadcastOptions options(mesh_);
  const Segment& data = work.segments.front();
  const bool root = work.root == mesh_->rank;
  // The caller makes the root's own copy. Gloo reads the root's memory only.
  options.setOutput(root ? const_cast<std::byte*>(data.in) : data.out, data.bytes);
  options.setRoot(work.root);
  options.setTag(tag_);
  gloo::broadcast(options);
}

std::byte* GlooCollectives::apart_from(const Segment& output, const std::byte* in,
                                       std::size_t bytes) {
  const bool inside = in >= output.out && in < output.out + output.bytes;
  if (!inside) return const_cast<std::byte*>(in);  // Gloo reads inputs only
  scratch_.assign(in, in + bytes);
  return scratch_.data();
}

void GlooCollectives::allgather(const Work& work) {
  const Segment& data = work.segments.front();
  const auto& chunks = work.chunk_bytes;
  const std::size_t mine = chunks[static_cast<std::size_t>(mesh_->rank)];
  gloo::AllgathervOptions options(mesh_);
  options.setInput(apart_from(data, data.in, mine), mine);
  options.setOutput(data.out, std::vector<std::size_t>(chunks.begin(), chunks.end()));
  options.setTag(tag_);
  gloo::allgatherv(options);
}

void GlooCollectives::alltoall(const Work& work) {
  const Segment& segment = work.segments.front();
  const Segment output{nullptr, segment.out, sum(work.recv_bytes)};
  gloo::AlltoallvOptions options(mesh_);
  options.setInput(apart_from(output, segment.in, sum(work.send_bytes)),
                   as_signed(work.send_bytes));
  options.setOutput(output.out, as_signed(work.recv_bytes));
  options.setTag(tag_);
  gloo::alltoallv(options);
}

void GlooCollectives::barrier() {
  gloo::BarrierOptions options(mesh_);
  options.setTag(tag_);
  gloo::barrier(options);
}

}  // namespace ronde::gloo_backend
