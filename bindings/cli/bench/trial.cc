#include "bindings/cli/bench/trial.h"

#include <algorithm>

#include "bindings/cli/bench/pattern.h"

namespace ronde::bench {
namespace {

/// Whether the tensor is made of one part for each rank.
bool has_parts(Collective kind) {
  return kind == Collective::kAllgather || kind == Collective::kReduceScatter ||
         kind == Collective::kAlltoall || kind == Collective::kGather ||
         kind == Collective::kScatter;
}

std::size_t part_elements(const TrialSpec& spec) {
  if (spec.kind == Collective::kBarrier) return 0;
  const auto parts = static_cast<std::size_t>(has_parts(spec.kind) ? spec.size : 1);
  return std::max<std::size_t>(spec.bytes / size_of(spec.dtype) / parts, 1);
}

}  // namespace

Buffer::Buffer(const TrialSpec& spec, std::size_t bytes)
    : data_(spec.allocate ? spec.allocate(bytes)
                          : std::shared_ptr<std::byte>(new std::byte[bytes](),
                                                       std::default_delete<std::byte[]>())),
      bytes_(bytes) {}

Trial::Trial(const TrialSpec& spec)
    : spec_(spec),
      width_(size_of(spec.dtype)),
      part_(part_elements(spec)),
      elements_(part_ * static_cast<std::size_t>(has_parts(spec.kind) ? spec.size : 1)),
      in_(spec_, in_elements() * width_),
      out_(spec_, out_elements() * width_),
      segment_{in_.data(), out_.data(), bytes()} {
  if (is_source()) segment_.out = in_.data();
  Pattern::of_rank(spec_.dtype, spec_.rank).fill(in_.bytes(), 0);
  spoil();
  if (has_parts(spec_.kind)) {
    part_bytes_.assign(static_cast<std::size_t>(spec_.size), part_ * width_);
  }
}

std::size_t Trial::in_elements() const noexcept {
  const bool one_part = spec_.kind == Collective::kAllgather || spec_.kind == Collective::kGather;
  return one_part ? part_ : elements_;
}

std::size_t Trial::out_elements() const noexcept {
  const bool one_part =
      spec_.kind == Collective::kReduceScatter || spec_.kind == Collective::kScatter;
  return one_part ? part_ : elements_;
}

bool Trial::is_source() const noexcept {
  return spec_.kind == Collective::kBroadcast && spec_.rank == 0;
}

double Trial::bus_factor() const noexcept {
  const double n = spec_.size;
  switch (spec_.kind) {
    case Collective::kAllreduce:
      return 2 * (n - 1) / n;
    case Collective::kAllgather:
    case Collective::kReduceScatter:
    case Collective::kAlltoall:
      return (n - 1) / n;
    default:
      return 1;
  }
}

Shape Trial::shape() const {
  const std::size_t own = spec_.kind == Collective::kScatter ? part_ : in_elements();
  return {static_cast<std::int64_t>(own)};
}

Bundle Trial::bundle() const {
  Bundle bundle;
  bundle.kind = spec_.kind;
  bundle.dtype = spec_.dtype;
  if (spec_.kind == Collective::kBarrier) return bundle;
  BundleTensor tensor;
  tensor.name = "bench";
  tensor.in = segment_.in;
  tensor.out = segment_.out;
  tensor.shape = shape();
  bundle.tensors.push_back(tensor);
  return bundle;
}

Work Trial::work() const {
  Work work;
  work.kind = spec_.kind;
  work.reduction.dtype = spec_.dtype;
  if (spec_.kind == Collective::kBarrier) return work;
  work.segments = {&segment_, 1};
  if (spec_.kind == Collective::kAlltoall) {
    work.send_bytes = work.recv_bytes = part_bytes_;
  } else {
    work.chunk_bytes = part_bytes_;
  }
  return work;
}

void Trial::spoil() {
  const std::span<std::byte> out = out_.bytes();
  std::fill(out.begin(), out.end(), std::byte{0x5a});
}

bool Trial::correct() const {
  const bool rooted = spec_.kind == Collective::kReduce || spec_.kind == Collective::kGather;
  if (is_source() || (rooted && spec_.rank != 0)) return true;
  const auto mine = static_cast<std::size_t>(spec_.rank) * part_;
  switch (spec_.kind) {
    case Collective::kAllreduce:
    case Collective::kReduce:
      return Pattern::of_sum(spec_.dtype, spec_.size).matches(out_.bytes(), 0);
    case Collective::kReduceScatter:
      return Pattern::of_sum(spec_.dtype, spec_.size).matches(out_.bytes(), mine);
    case Collective::kBroadcast:
      return Pattern::of_rank(spec_.dtype, 0).matches(out_.bytes(), 0);
    case Collective::kScatter:
      return Pattern::of_rank(spec_.dtype, 0).matches(out_.bytes(), mine);
    default:
      return parts_match();
  }
}

bool Trial::parts_match() const {
  const std::span<const std::byte> out = out_.bytes();
  const std::size_t first =
      spec_.kind == Collective::kAlltoall ? static_cast<std::size_t>(spec_.rank) * part_ : 0;
  for (std::size_t from = 0; from < part_bytes_.size(); ++from) {
    const auto part = out.subspan(from * part_bytes_[from], part_bytes_[from]);
    const Pattern pattern = Pattern::of_rank(spec_.dtype, static_cast<int>(from));
    if (!pattern.matches(part, first)) return false;
  }
  return true;
}

}  // namespace ronde::bench
