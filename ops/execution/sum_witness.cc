#include "ops/execution/sum_witness.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "ops/execution/mean_check.h"

namespace ronde {
namespace {

bool is_rounded(const Reduction& what) {
  const bool sums = what.op == ReduceOp::kSum || what.op == ReduceOp::kAverage;
  return sums && is_floating(what.dtype);
}

std::size_t first_off(const ReduceKernels& kernels, const Reduction& what,
                      std::span<const void* const> inputs, const void* out, std::size_t count) {
  std::vector<long double> sums(count);
  std::vector<long double> magnitudes(count);
  std::vector<double> values(count);
  for (const void* const input : inputs) {
    kernels.cast(what.dtype, input, DType::kFloat64, values.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] += static_cast<long double>(values[i]);
      magnitudes[i] += std::abs(static_cast<long double>(values[i]));
    }
  }
  kernels.cast(what.dtype, out, DType::kFloat64, values.data(), count);
  const long double factor = static_cast<long double>(what.scaling.pre) * what.scaling.post;
  const double bound = mean_error_bound(static_cast<int>(inputs.size()));
  for (std::size_t i = 0; i < count; ++i) {
    const double off =
        error_in_ulps(what.dtype, values[i], sums[i] * factor, magnitudes[i] * std::abs(factor));
    if (!(off <= bound)) return i;
  }
  return count;
}

/// Minima and maxima of floating types may be other zeros and NaNs.
bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::size_t first_different(const ReduceKernels& kernels, const Reduction& what,
                            std::span<const void* const> inputs, const void* out,
                            std::size_t count) {
  const std::size_t width = size_of(what.dtype);
  std::vector<std::byte> right(count * width);
  kernels.reduce(what, inputs, right.data(), count);
  if (is_floating(what.dtype)) {
    std::vector<double> wanted(count);
    std::vector<double> got(count);
    kernels.cast(what.dtype, right.data(), DType::kFloat64, wanted.data(), count);
    kernels.cast(what.dtype, out, DType::kFloat64, got.data(), count);
    const auto [at, end] = std::mismatch(wanted.begin(), wanted.end(), got.begin(), is_same);
    return static_cast<std::size_t>(at - wanted.begin());
  }
  const auto* const got = static_cast<const std::byte*>(out);
  const auto [at, end] = std::mismatch(right.begin(), right.end(), got);
  return static_cast<std::size_t>(at - right.begin()) / width;
}

/// Bytes of a call that are among some elements.
struct Window {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Window overlap(const std::byte* call, std::size_t bytes, const std::byte* own, std::size_t length) {
  const auto at = reinterpret_cast<std::uintptr_t>(call);
  const auto first = reinterpret_cast<std::uintptr_t>(own);
  const std::uintptr_t begin = std::max(at, first);
  const std::uintptr_t end = std::min(at + bytes, first + length);
  if (own == nullptr || begin >= end) return {};
  return {begin - at, end - at};
}

/// The part of a call that reads or writes `own`.
Window window_of(std::span<const void* const> inputs, const void* out, std::size_t bytes,
                 const OwnElements& own) {
  Window found = overlap(static_cast<const std::byte*>(out), bytes, own.out, own.bytes);
  for (const void* const input : inputs) {
    const auto* const in = static_cast<const std::byte*>(input);
    if (found.begin == found.end) found = overlap(in, bytes, own.in, own.bytes);
    if (found.begin == found.end) found = overlap(in, bytes, own.out, own.bytes);
  }
  return found;
}

/// Changes the highest byte of each element. Several times do not cancel.
void spoil_all(std::byte* out, std::size_t bytes, std::size_t width) {
  for (std::size_t at = width - 1; at < bytes; at += width) {
    out[at] = static_cast<std::byte>(std::to_integer<unsigned>(out[at]) + 0x11U);
  }
}

bool is_same_memory(const OwnElements& a, const OwnElements& b) {
  return a.in == b.in && a.out == b.out && a.bytes == b.bytes;
}

}  // namespace

std::size_t first_wrong(const ReduceKernels& kernels, const Reduction& what,
                        std::span<const void* const> inputs, const void* out, std::size_t count) {
  return is_rounded(what) ? first_off(kernels, what, inputs, out, count)
                          : first_different(kernels, what, inputs, out, count);
}

void SumWitness::mark(const OwnElements& elements, bool spoils) {
  const MutexLock lock(mutex_);
  marks_.push_back({.elements = elements, .spoils = spoils});
  any_ = true;
}

bool SumWitness::unmark(const OwnElements& elements, bool spoils) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(marks_.begin(), marks_.end(), [&](const Marked& one) {
    return one.spoils == spoils && is_same_memory(one.elements, elements);
  });
  if (found == marks_.end()) return false;
  const bool seen = found->seen;
  marks_.erase(found);
  any_ = !marks_.empty();
  return seen;
}

void SumWitness::watch(const OwnElements& elements) { mark(elements, false); }
bool SumWitness::forget(const OwnElements& elements) { return unmark(elements, false); }
void SumWitness::spoil(const OwnElements& elements) { mark(elements, true); }
bool SumWitness::heal(const OwnElements& elements) { return unmark(elements, true); }

/// Keeps the inputs of marked elements: the output may overwrite them.
template <typename Compute>
void SumWitness::compute(const Reduction& what, std::span<const void* const> inputs, void* out,
                         std::size_t count, Compute compute) const {
  if (!any_.load(std::memory_order_relaxed)) return compute();
  const std::size_t bytes = count * size_of(what.dtype);
  const MutexLock lock(mutex_);
  std::vector<Window> windows;
  std::vector<std::vector<std::byte>> kept;
  for (const Marked& one : marks_) {
    windows.push_back(window_of(inputs, out, bytes, one.elements));
    for (const void* const input : inputs) {
      const auto* const in = static_cast<const std::byte*>(input);
      kept.emplace_back(in + windows.back().begin, in + windows.back().end);
    }
  }
  compute();
  for (const bool spoils : {true, false}) {
    for (std::size_t m = 0; m < marks_.size(); ++m) {
      if (marks_[m].spoils != spoils || windows[m].begin == windows[m].end) continue;
      look(what, std::span(kept).subspan(m * inputs.size(), inputs.size()),
           static_cast<std::byte*>(out) + windows[m].begin, windows[m].end - windows[m].begin,
           marks_[m]);
    }
  }
}

void SumWitness::look(const Reduction& what, std::span<const std::vector<std::byte>> inputs,
                      std::byte* out, std::size_t bytes, Marked& marked) const {
  const std::size_t width = size_of(what.dtype);
  if (marked.spoils) {
    spoil_all(out, bytes, width);
    marked.seen = true;
    return;
  }
  std::vector<const void*> places;
  for (const auto& input : inputs) places.push_back(input.data());
  if (first_wrong(*kernels_, what, places, out, bytes / width) < bytes / width) marked.seen = true;
}

void SumWitness::reduce(const Reduction& what, std::span<const void* const> inputs, void* out,
                        std::size_t count) const noexcept {
  compute(what, inputs, out, count, [&] { kernels_->reduce(what, inputs, out, count); });
}

void SumWitness::reduce_streaming(const Reduction& what, std::span<const void* const> inputs,
                                  void* out, std::size_t count) const noexcept {
  compute(what, inputs, out, count, [&] { kernels_->reduce_streaming(what, inputs, out, count); });
}

}  // namespace ronde
