#include "bindings/cli/bench/trial.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/kernels/factory.h"

namespace ronde::bench {
namespace {

constexpr std::size_t kPeriod = 23;

int element(int rank, std::size_t index) {
  return 1 + static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13) % kPeriod);
}

/// One rank's contribution to element `index`; bool alternates, others count, 8-bit floating types
/// as far as they are exact.
int contribution(const TrialSpec& spec, int rank, std::size_t index) {
  const int value = element(rank, index);
  if (spec.op == ReduceOp::kAverage) return value * spec.size;
  if (spec.op == ReduceOp::kAdasum) {
    return static_cast<int>(index) % spec.size == rank ? value : 0;
  }
  if (is_float8(spec.dtype)) return value % 3;
  return spec.dtype == DType::kBool ? value % 5 / 4 : value;
}

}  // namespace

Pattern::Pattern(const TrialSpec& spec, int first_rank, int last_rank, int divisor)
    : width_(size_of(spec.dtype)), twice_(2 * kPeriod * width_) {
  std::array<std::int32_t, 2 * kPeriod> values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (int rank = first_rank; rank <= last_rank; ++rank) {
      values[i] += contribution(spec, rank, i % kPeriod);
    }
    values[i] /= divisor;
  }
  create_kernels()->cast(DType::kInt32, values.data(), spec.dtype, twice_.data(), values.size());
}

Pattern Pattern::of_rank(const TrialSpec& spec, int rank) { return {spec, rank, rank, 1}; }

Pattern Pattern::of_result(const TrialSpec& spec) {
  return {spec, 0, spec.size - 1, spec.op == ReduceOp::kAverage ? spec.size : 1};
}

void Pattern::fill(std::span<std::byte> to, std::size_t first) const {
  const std::byte* period = twice_.data() + first % kPeriod * width_;
  for (std::size_t done = 0; done < to.size(); done += kPeriod * width_) {
    std::memcpy(to.data() + done, period, std::min(kPeriod * width_, to.size() - done));
  }
}

bool Pattern::matches(std::span<const std::byte> data, std::size_t first) const {
  const std::byte* period = twice_.data() + first % kPeriod * width_;
  for (std::size_t done = 0; done < data.size(); done += kPeriod * width_) {
    const std::size_t bytes = std::min(kPeriod * width_, data.size() - done);
    if (std::memcmp(data.data() + done, period, bytes) != 0) return false;
  }
  return true;
}

namespace {

/// True if the tensor is made of one chunk for each rank.
bool has_chunks(Collective kind) {
  return traits_of(kind).has_chunks() || traits_of(kind).has_splits();
}

std::size_t part_elements(const TrialSpec& spec) {
  if (!traits_of(spec.kind).moves_data()) return 0;
  const auto parts = static_cast<std::size_t>(has_chunks(spec.kind) ? spec.size : 1);
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
      elements_(part_ * static_cast<std::size_t>(has_chunks(spec.kind) ? spec.size : 1)),
      in_(spec_, in_elements() * width_),
      out_(spec_, out_elements() * width_),
      segment_{in_.data(), out_.data(), bytes()} {
  if (is_source()) segment_.out = in_.data();
  Pattern::of_rank(spec_, spec_.rank).fill(in_.bytes(), 0);
  spoil();
  if (has_chunks(spec_.kind)) {
    part_bytes_.assign(static_cast<std::size_t>(spec_.size), part_ * width_);
  }
}

std::size_t Trial::in_elements() const noexcept {
  return traits_of(spec_.kind).input.layout == BufferLayout::kOwnChunk ? part_ : elements_;
}

std::size_t Trial::out_elements() const noexcept {
  return traits_of(spec_.kind).output.layout == BufferLayout::kOwnChunk ? part_ : elements_;
}

bool Trial::is_source() const noexcept {
  return traits_of(spec_.kind).root_copies() && spec_.rank == 0;
}

double Trial::bus_factor() const noexcept { return traits_of(spec_.kind).bus_factor(spec_.size); }

Shape Trial::shape() const {
  const bool of_output = traits_of(spec_.kind).shape == ShapeOf::kOutput;
  const std::size_t own = of_output ? out_elements() : in_elements();
  return {static_cast<std::int64_t>(own)};
}

Bundle Trial::bundle() const {
  Bundle bundle;
  bundle.kind = spec_.kind;
  bundle.dtype = spec_.dtype;
  bundle.op = spec_.op;
  if (!traits_of(spec_.kind).moves_data()) return bundle;
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
  work.reduction.op = spec_.op;
  if (!traits_of(spec_.kind).moves_data()) return work;
  work.segments = {&segment_, 1};
  if (traits_of(spec_.kind).has_splits()) {
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
  const CollectiveTraits& traits = traits_of(spec_.kind);
  if (is_source() || (traits.output.root_only && spec_.rank != 0)) return true;
  const bool own_chunk = traits.output.layout == BufferLayout::kOwnChunk;
  const std::size_t first = own_chunk ? static_cast<std::size_t>(spec_.rank) * part_ : 0;
  if (traits.reduces) {
    return Pattern::of_result(spec_).matches(out_.bytes(), first);
  }
  if (traits.input.root_only) return Pattern::of_rank(spec_, 0).matches(out_.bytes(), first);
  return parts_match();
}

bool Trial::parts_match() const {
  const std::span<const std::byte> out = out_.bytes();
  const std::size_t first =
      traits_of(spec_.kind).has_splits() ? static_cast<std::size_t>(spec_.rank) * part_ : 0;
  for (std::size_t from = 0; from < part_bytes_.size(); ++from) {
    const auto part = out.subspan(from * part_bytes_[from], part_bytes_[from]);
    const Pattern pattern = Pattern::of_rank(spec_, static_cast<int>(from));
    if (!pattern.matches(part, first)) return false;
  }
  return true;
}

}  // namespace ronde::bench
