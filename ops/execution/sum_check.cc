#include "ops/execution/sum_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/bytes.h"
#include "core/base/join_text.h"

namespace ronde {
namespace {

constexpr std::size_t kWord = sizeof(std::int64_t);

std::size_t words_of(std::size_t bytes) { return (bytes + kWord - 1) / kWord; }

double value_at(const ReduceKernels& kernels, DType dtype, const std::byte* data,
                std::size_t index) {
  double value = 0;
  kernels.cast(dtype, data + index * size_of(dtype), DType::kFloat64, &value, 1);
  return value;
}

}  // namespace

bool SumCheck::applies(const Bundle& bundle) noexcept {
  const bool is_fit = ronde::is_element_wise(bundle.op);
  const bool is_product = bundle.op == ReduceOp::kProduct && is_floating(bundle.dtype);
  return bundle.kind == Collective::kAllreduce && bundle.device.kind == DeviceKind::kCpu &&
         bundle.compression.empty() && is_fit && !is_product;
}

/// Drawn works do not follow the rhythm of training steps.
bool SumCheck::begin(const Work& work) {
  const std::size_t width = size_of(work.reduction.dtype);
  const std::uint64_t drawn = hash64(std::as_bytes(std::span(&works_, 1)));
  ++works_;
  std::size_t elements = 0;
  for (const Segment& segment : work.segments) elements += segment.bytes / width;
  if (drawn % options_.every != 0 || elements == 0) return false;
  std::size_t at = drawn / options_.every % elements;
  for (segment_ = 0; at >= work.segments[segment_].bytes / width; ++segment_) {
    at -= work.segments[segment_].bytes / width;
  }
  first_ = at / kSample * kSample;
  count_ = std::min(kSample, work.segments[segment_].bytes / width - first_);
  const OwnElements mine = own(work);
  input_.assign(count_ * width, std::byte{0});
  if (mine.in != nullptr) std::memcpy(input_.data(), mine.in, input_.size());
  if (options_.witness) options_.witness->watch(mine);
  return true;
}

OwnElements SumCheck::own(const Work& work) const {
  const Segment& segment = work.segments[segment_];
  const std::size_t width = size_of(work.reduction.dtype);
  return {.in = segment.in == nullptr ? nullptr : segment.in + first_ * width,
          .out = segment.out == nullptr ? nullptr : segment.out + first_ * width,
          .bytes = count_ * width};
}

std::vector<std::int64_t> SumCheck::pack(const std::byte* result, bool blamed) const {
  const std::size_t words = words_of(input_.size());
  std::vector<std::int64_t> numbers(2 * words + 2);
  std::memcpy(numbers.data(), input_.data(), input_.size());
  if (result != nullptr) std::memcpy(numbers.data() + words, result, input_.size());
  numbers[2 * words] = result == nullptr ? 0 : 1;
  numbers[2 * words + 1] = blamed ? 1 : 0;
  return numbers;
}

Status SumCheck::end(const Bundle& bundle, const Work& work, const AbortToken& abort) {
  const OwnElements mine = own(work);
  const bool blamed = options_.witness && options_.witness->forget(mine);
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(pack(mine.out, blamed), abort));
  return judge(bundle, work.reduction, all);
}

void SumCheck::drop(const Work& work) {
  if (options_.witness) options_.witness->forget(own(work));
}

/// All ranks have the same numbers, so they say the same.
Status SumCheck::judge(const Bundle& bundle, const Reduction& what,
                       std::span<const std::int64_t> all) {
  const std::size_t words = words_of(input_.size());
  const std::size_t stride = all.size() / size_;
  const auto place = [&](std::size_t rank, std::size_t part) {
    return reinterpret_cast<const std::byte*>(all.data() + rank * stride + part * words);
  };
  std::vector<const void*> inputs;
  for (std::size_t r = 0; r < size_; ++r) inputs.push_back(place(r, 0));
  std::size_t element = count_;
  std::vector<int> wrong;
  std::vector<int> blamed;
  double value = 0;
  for (std::size_t r = 0; r < size_; ++r) {
    const bool has_result = all[r * stride + 2 * words] != 0;
    const std::size_t at =
        has_result ? first_wrong(*kernels_, what, inputs, place(r, 1), count_) : count_;
    if (all[r * stride + 2 * words + 1] != 0) blamed.push_back(job_rank(r));
    if (at == count_) continue;
    if (wrong.empty()) element = at;
    if (wrong.empty()) value = value_at(*kernels_, what.dtype, place(r, 1), at);
    wrong.push_back(job_rank(r));
  }
  if (wrong.empty()) return {};
  std::vector<std::byte> right(count_ * size_of(what.dtype));
  kernels_->reduce(what, inputs, right.data(), count_);
  const auto begin = static_cast<std::size_t>(bundle.tensors[segment_].begin) + first_;
  const std::string who =
      blamed.empty() ? "a sum is wrong"
                     : fmt::format("rank {} computed a wrong sum", join_text(blamed, ", "));
  return Status(Code::kCorrupted,
                fmt::format("{}, among the elements {} to {}: element {} is {:.9g} on rank {}, the "
                            "inputs of all ranks give {:.9g}",
                            who, begin, begin + count_ - 1, begin + element, value,
                            join_text(wrong, ", "),
                            value_at(*kernels_, what.dtype, right.data(), element)))
      .in_tensor(segment_);
}

}  // namespace ronde
