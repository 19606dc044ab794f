#include "backends/gloo/collectives.h"

#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/ports/segment_cursor.h"

namespace ronde::gloo_backend {
namespace {

// Below this Gloo's halving and doubling has fewer steps to pay for than its ring.
constexpr std::size_t kBcubeBytes = std::size_t{64} << 10;

/// Calls `body` with a null pointer to an integer as wide as `dtype`. Gloo's options take element
/// types. Only the width matters, as Ronde reduces.
template <typename Body>
void with_width(DType dtype, Body body) {
  switch (size_of(dtype)) {
    case 1:
      return body(static_cast<std::uint8_t*>(nullptr));
    case 2:
      return body(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return body(static_cast<std::uint32_t*>(nullptr));
    default:
      return body(static_cast<std::uint64_t*>(nullptr));
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
  switch (work.kind) {
    case Collective::kAllreduce:
      return allreduce(work);
    case Collective::kReduce:
      return reduce(work);
    case Collective::kBroadcast:
      return broadcast(work);
    case Collective::kAllgather:
      for (std::size_t s = 0; s < work.segments.size(); ++s) allgather(work, s);
      return;
    case Collective::kAlltoall:
      return alltoall(work);
    default:
      return barrier();
  }
}

void GlooCollectives::scale(DType dtype, double factor, std::span<std::byte> data) const {
  if (factor == 1.0) return;
  const Reduction scaled{dtype, ReduceOp::kSum, Scaling{.pre = 1.0, .post = factor}};
  const void* inputs[] = {data.data()};
  kernels_->reduce(scaled, inputs, data.data(), data.size() / size_of(dtype));
}

void GlooCollectives::reduce_with(const Work& work, bool keeps_output, const Move& move) {
  const std::size_t bytes = total_bytes(work);
  if (bytes == 0) return;
  const auto& [dtype, op, scaling, rounds_once] = work.reduction;
  const Segment& first = work.segments.front();
  const bool direct = work.segments.size() == 1 && keeps_output && scaling.pre == 1.0 &&
                      first.in != nullptr && first.out != nullptr;
  if (direct) {
    move(const_cast<std::byte*>(first.in), first.out, bytes);  // Gloo reads inputs only
    return scale(dtype, scaling.post, {first.out, bytes});
  }
  scratch_.resize(bytes);
  SegmentCursor cursor(work.segments);
  cursor.read(scratch_);
  scale(dtype, scaling.pre, scratch_);
  move(scratch_.data(), scratch_.data(), bytes);
  if (!keeps_output) return;
  scale(dtype, scaling.post, scratch_);
  cursor.write(scratch_);
}

void GlooCollectives::allreduce(const Work& work) {
  const auto move = [&](std::byte* in, std::byte* out, std::size_t bytes) {
    gloo::AllreduceOptions options(mesh_);
    const bool bcube =
        bytes <= kBcubeBytes && std::has_single_bit(static_cast<unsigned>(mesh_->size));
    options.setAlgorithm(bcube ? gloo::AllreduceOptions::Algorithm::BCUBE
                               : gloo::AllreduceOptions::Algorithm::RING);
    with_width(work.reduction.dtype, [&](auto* width) {
      using Element = std::remove_pointer_t<decltype(width)>;
      const std::size_t count = bytes / sizeof(Element);
      if (in != out) options.setInput(reinterpret_cast<Element*>(in), count);
      options.setOutput(reinterpret_cast<Element*>(out), count);
    });
    options.setReduceFunction(reducer(*kernels_, work.reduction));
    options.setTag(tag_);
    gloo::allreduce(options);
  };
  reduce_with(work, true, move);
}

void GlooCollectives::reduce(const Work& work) {
  const auto move = [&](std::byte* in, std::byte* out, std::size_t bytes) {
    gloo::ReduceOptions options(mesh_);
    with_width(work.reduction.dtype, [&](auto* width) {
      using Element = std::remove_pointer_t<decltype(width)>;
      const std::size_t count = bytes / sizeof(Element);
      if (in != out) options.setInput(reinterpret_cast<Element*>(in), count);
      options.setOutput(reinterpret_cast<Element*>(out), count);
    });
    options.setReduceFunction(reducer(*kernels_, work.reduction));
    options.setRoot(work.root);
    options.setTag(tag_);
    gloo::reduce(options);
  };
  reduce_with(work, work.root == mesh_->rank, move);
}

void GlooCollectives::broadcast(const Work& work) {
  const bool root = work.root == mesh_->rank;
  for (const Segment& segment : work.segments) {
    ++tag_;
    if (segment.bytes == 0) continue;
    gloo::BroadcastOptions options(mesh_);
    std::byte* in = const_cast<std::byte*>(segment.in);  // Gloo reads inputs only
    std::byte* out = segment.out;
    if (out == nullptr && root) out = in;
    if (out == nullptr) {
      scratch_.resize(segment.bytes);
      out = scratch_.data();
    }
    if (root && in != out) options.setInput(in, segment.bytes);
    options.setOutput(out, segment.bytes);
    options.setRoot(work.root);
    options.setTag(tag_);
    gloo::broadcast(options);
  }
}

std::byte* GlooCollectives::apart_from(const Segment& output, const std::byte* in,
                                       std::size_t bytes) {
  const bool inside = in >= output.out && in < output.out + output.bytes;
  if (!inside) return const_cast<std::byte*>(in);  // Gloo reads inputs only
  scratch_.assign(in, in + bytes);
  return scratch_.data();
}

void GlooCollectives::allgather(const Work& work, std::size_t segment) {
  ++tag_;
  const auto size = static_cast<std::size_t>(mesh_->size);
  const auto parts = work.chunk_bytes.subspan(segment * size, size);
  Segment output = work.segments[segment];
  output.bytes = sum(parts);
  if (output.bytes == 0) return;
  const std::size_t mine = parts[static_cast<std::size_t>(mesh_->rank)];
  std::vector<std::byte> unwanted(output.out == nullptr ? output.bytes : 0);
  if (output.out == nullptr) output.out = unwanted.data();
  gloo::AllgathervOptions options(mesh_);
  options.setInput(apart_from(output, work.segments[segment].in, mine), mine);
  options.setOutput(output.out, std::vector<std::size_t>(parts.begin(), parts.end()));
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
