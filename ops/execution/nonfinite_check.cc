#include "ops/execution/nonfinite_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

namespace ronde {
namespace {

/// Numbers of a segment that ranks exchange.
constexpr std::size_t kNumbers = 6;

void append(std::vector<std::int64_t>& numbers, const OddValue& odd) {
  numbers.insert(numbers.end(), {odd.element, odd.rank, std::bit_cast<std::int64_t>(odd.value)});
}

OddValue odd_of(std::span<const std::int64_t> numbers) {
  return {numbers[0], static_cast<int>(numbers[1]), std::bit_cast<double>(numbers[2])};
}

bool has_outputs_everywhere(const Work& work) {
  return std::ranges::all_of(work.segments,
                             [](const Segment& s) { return s.bytes == 0 || s.out != nullptr; });
}

}  // namespace

bool NonfiniteCheck::applies(const Bundle& bundle) noexcept {
  return traits_of(bundle.kind).reduces && is_floating(bundle.dtype) &&
         bundle.device.kind == DeviceKind::kCpu;
}

/// A rank that has joined gets the results of allreduces too, so that it knows what all know.
Work NonfiniteCheck::begin(const Work& work, const WatchedPath& path) {
  work_ = work;
  path_ = path;
  inputs_seen_ = path.shows_values;
  watch_.begin(work.reduction, work.segments.size());
  if (work.kind == Collective::kAllreduce && !has_outputs_everywhere(work)) {
    segments_.assign(work.segments.begin(), work.segments.end());
    unwanted_.resize(total_bytes(work));
    std::size_t at = 0;
    for (Segment& segment : segments_) {
      if (segment.out == nullptr) segment.out = unwanted_.data() + at;
      at += segment.bytes;
    }
    work_.segments = segments_;
  }
  if (!inputs_seen_ && (path.lossy || overwrites_inputs())) look_at_inputs();
  if (path.shows_values) work_.watch = &watch_;
  return work_;
}

bool NonfiniteCheck::overwrites_inputs() const {
  return std::ranges::any_of(work_.segments, [](const Segment& s) {
    return s.in != nullptr && s.out != nullptr && s.out < s.in + s.bytes && s.in < s.out + s.bytes;
  });
}

void NonfiniteCheck::look_at_inputs() {
  inputs_seen_ = true;
  for (std::size_t s = 0; s < work_.segments.size(); ++s) {
    watch_.look_at_input(rank_, s, 0, work_.segments[s].in, work_.segments[s].bytes);
  }
}

/// The place of this rank's results in the whole segment.
std::size_t NonfiniteCheck::first_byte(std::size_t segment) const {
  if (work_.chunk_bytes.empty()) return 0;
  const auto chunks = work_.chunk_bytes.subspan(segment * size_, static_cast<std::size_t>(rank_));
  std::size_t sum = 0;
  for (const std::size_t bytes : chunks) sum += bytes;
  return sum;
}

void NonfiniteCheck::look_at_results() {
  for (std::size_t s = 0; s < work_.segments.size(); ++s) {
    const Segment& segment = work_.segments[s];
    if (segment.out == nullptr) continue;
    const std::size_t bytes = work_.chunk_bytes.empty()
                                  ? segment.bytes
                                  : work_.chunk_bytes[s * size_ + static_cast<std::size_t>(rank_)];
    watch_.look_at_result(s, first_byte(s), segment.out, bytes);
  }
}

void NonfiniteCheck::look_at(const Work& work, const std::vector<std::byte>& result) {
  work_ = work;
  path_ = {.shows_values = true, .same_bits = true};
  watch_.begin(work.reduction, work.segments.size());
  if (watch_.look_at_result(0, 0, result.data(), result.size())) look_at_inputs();
}

/// Lossy paths: an odd input counts though no result shows it.
Result<bool> NonfiniteCheck::found_anywhere(const AbortToken& abort) {
  if (path_.same_bits) return watch_.found();
  const bool lost =
      std::ranges::any_of(watch_.first(), [](const auto& first) { return first.input.exists(); });
  const std::array<std::int64_t, 1> mine = {watch_.found() || lost ? 1 : 0};
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(mine, abort));
  return std::ranges::any_of(all, [](std::int64_t odd) { return odd != 0; });
}

Status NonfiniteCheck::end(const Bundle& bundle, const AbortToken& abort) {
  if (!path_.shows_values) look_at_results();
  RONDE_ASSIGN_OR_RETURN(const bool found, found_anywhere(abort));
  if (!found) return {};
  if (!inputs_seen_ && !path_.shows_values) look_at_inputs();
  return agree(bundle, abort);
}

/// Each segment is one tensor, so a tensor is not blamed for another one of its bundle.
Status NonfiniteCheck::agree(const Bundle& bundle, const AbortToken& abort) {
  std::vector<std::int64_t> mine;
  mine.reserve(watch_.first().size() * kNumbers + 1);
  for (const auto& [input, result] : watch_.first()) {
    append(mine, input);
    append(mine, result);
  }
  const bool takes_part = bundle.tensors.front().finding != nullptr;
  mine.push_back(takes_part ? 1 : 0);
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(mine, abort));
  bool reports = takes_part;
  for (int r = 0; r < rank_; ++r) {
    reports = reports && all[(static_cast<std::size_t>(r) + 1) * mine.size() - 1] == 0;
  }
  for (std::size_t s = 0; s < watch_.first().size(); ++s) {
    OddValue input;
    OddValue result;
    for (std::size_t r = 0; r < size_; ++r) {
      const auto numbers = all.subspan(r * mine.size() + s * kNumbers, kNumbers);
      input.keep_first(odd_of(numbers.first(3)));
      result.keep_first(odd_of(numbers.last(3)));
    }
    const BundleTensor& tensor = bundle.tensors[s];
    if (tensor.finding != nullptr) {
      tensor.finding->keep_first(tensor, input.exists() ? input : result, reports);
    }
  }
  return {};
}

}  // namespace ronde
