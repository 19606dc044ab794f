#include "bindings/runtime/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace ronde {
namespace {

using Address = std::uintptr_t;

/// The memory of one side of a tensor. Sizes that only the agreement tells count as one byte.
struct Range {
  Address begin = 0;
  std::size_t bytes = 0;
  std::size_t tensor = 0;

  [[nodiscard]] Address end() const noexcept { return begin + bytes; }
  [[nodiscard]] bool meets(const Range& other) const noexcept {
    return begin < other.end() && other.begin < end();
  }
};

Address address_of(const void* pointer) noexcept { return reinterpret_cast<Address>(pointer); }

std::size_t shape_bytes(const TensorMemory& tensor) noexcept {
  return static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
}

/// True where the shape is that of one rank's chunk, of which the root's input has one a rank.
bool has_a_chunk_for_each(const CollectiveTraits& traits) noexcept {
  return traits.shape == ShapeOf::kOutput;
}

/// True where a rank's output is its chunk of its input, of the input's shape.
bool gives_a_chunk(const CollectiveTraits& traits) noexcept {
  return traits.output.layout == BufferLayout::kOwnChunk && !has_a_chunk_for_each(traits);
}

/// This rank's chunk of a tensor, from the tensor's begin. The first ranks get one row more.
Range own_chunk(const MemoryUse& use, const TensorMemory& tensor) {
  const auto ranks = static_cast<std::size_t>(use.ranks);
  const auto place = static_cast<std::size_t>(use.place);
  const std::size_t rows = tensor.shape.empty() ? 1 : static_cast<std::size_t>(tensor.shape[0]);
  const std::size_t row_bytes = rows == 0 ? 0 : shape_bytes(tensor) / rows;
  const std::size_t before = place * (rows / ranks) + std::min(place, rows % ranks);
  return {before * row_bytes, (rows / ranks + (place < rows % ranks ? 1 : 0)) * row_bytes};
}

bool reads(const MemoryUse& use) noexcept {
  const BufferTraits& input = traits_of(use.kind).input;
  return input.layout != BufferLayout::kNone && (use.is_root || !input.root_only);
}

bool writes(const MemoryUse& use) noexcept {
  const BufferTraits& output = traits_of(use.kind).output;
  return output.layout != BufferLayout::kNone && (use.is_root || !output.root_only);
}

/// The range that an operation reads; no bytes where it reads none. Broadcasts count on each rank,
/// so that all ranks refuse the same memory.
Range input_of(const MemoryUse& use, const TensorMemory& tensor, std::size_t index) {
  const CollectiveTraits& traits = traits_of(use.kind);
  if (tensor.in == nullptr || !(reads(use) || traits.element_wise())) return {};
  const auto copies = has_a_chunk_for_each(traits) ? static_cast<std::size_t>(use.ranks) : 1;
  const std::size_t bytes = copies * shape_bytes(tensor);
  return bytes == 0 ? Range{} : Range{address_of(tensor.in), bytes, index};
}

/// The range that an operation writes; no bytes where it writes none.
Range output_of(const MemoryUse& use, const TensorMemory& tensor, std::size_t index) {
  const CollectiveTraits& traits = traits_of(use.kind);
  const std::size_t bytes = shape_bytes(tensor);
  if (tensor.out == nullptr || !writes(use) || bytes == 0) return {};
  if (gives_a_chunk(traits)) return {address_of(tensor.out), own_chunk(use, tensor).bytes, index};
  const bool is_known = traits.element_wise() || has_a_chunk_for_each(traits);
  return {address_of(tensor.out), is_known ? bytes : 1, index};
}

std::string described(const TensorMemory& tensor) {
  return fmt::format("shape {}, dtype {}", to_string(tensor.shape), to_string(tensor.dtype));
}

/// "the input", or "input 3" of several.
std::string named(std::string_view side, std::size_t tensor, std::size_t count) {
  return count == 1 ? fmt::format("the {}", side) : fmt::format("{} {}", side, tensor);
}

Status check_address(std::string_view side, const Range& range, const TensorMemory& tensor,
                     std::size_t count) {
  const std::size_t width = size_of(tensor.dtype);
  if (range.begin % width != 0) {
    return {Code::kInvalidArgument,
            fmt::format("{} ({}) is at address {:#x}; addresses of {} must be multiples of {}",
                        named(side, range.tensor, count), described(tensor), range.begin,
                        to_string(tensor.dtype), width)};
  }
  if (range.bytes > std::numeric_limits<Address>::max() - range.begin) {
    return {
        Code::kInvalidArgument,
        fmt::format("{} ({}) at address {:#x} would have {} bytes, more than fit behind it",
                    named(side, range.tensor, count), described(tensor), range.begin, range.bytes)};
  }
  return {};
}

Status check_null(const MemoryUse& use, const TensorMemory& tensor, std::size_t index,
                  std::size_t count) {
  const bool lacks_input = reads(use) && tensor.in == nullptr;
  const bool lacks_output = writes(use) && !use.allocates && tensor.out == nullptr;
  if (shape_bytes(tensor) == 0 || (!lacks_input && !lacks_output)) return {};
  return {Code::kInvalidArgument,
          fmt::format("{} ({}) has a null address; it needs memory of {} bytes",
                      named(lacks_input ? "input" : "output", index, count), described(tensor),
                      shape_bytes(tensor))};
}

/// Scatter's input is as many times larger as there are ranks.
Status check_size(const MemoryUse& use, const TensorMemory& tensor) {
  if (!has_a_chunk_for_each(traits_of(use.kind))) return {};
  const std::size_t most =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::size_t>(use.ranks);
  if (shape_bytes(tensor) <= most) return {};
  return {Code::kInvalidArgument,
          fmt::format("{} times {} are too many bytes", use.ranks, described(tensor))};
}

Status check_addresses(const MemoryUse& use, const TensorMemory& tensor, std::size_t index,
                       std::size_t count) {
  RONDE_RETURN_IF_ERROR(check_size(use, tensor));
  RONDE_RETURN_IF_ERROR(check_null(use, tensor, index, count));
  RONDE_RETURN_IF_ERROR(check_address("input", input_of(use, tensor, index), tensor, count));
  return check_address("output", output_of(use, tensor, index), tensor, count);
}

/// True if the output may lie there: it is exactly its input, or this rank's own chunk of it. Where
/// only the agreement tells sizes, an input may be a rank's chunk of its output.
bool is_in_place(const MemoryUse& use, const TensorMemory& tensor, const Range& in,
                 const Range& out) noexcept {
  const CollectiveTraits& traits = traits_of(use.kind);
  if (gives_a_chunk(traits)) return out.begin == in.begin + own_chunk(use, tensor).begin;
  if (traits.element_wise()) return in.begin == out.begin;
  if (has_a_chunk_for_each(traits)) {
    return out.begin == in.begin + static_cast<std::size_t>(use.place) * out.bytes;
  }
  return out.begin <= in.begin;
}

Status overlap(const MemoryUse& use, std::span<const TensorMemory> tensors, const Range& out,
               std::string_view side, const Range& other) {
  const bool own = out.tensor == other.tensor;
  return {Code::kInvalidArgument,
          fmt::format("{} ({}) overlaps {} ({}); give memory of its own{}",
                      named("output", out.tensor, tensors.size()), described(tensors[out.tensor]),
                      named(side, other.tensor, tensors.size()), described(tensors[other.tensor]),
                      own && traits_of(use.kind).element_wise()
                          ? ", or exactly the input to work in place"
                          : "")};
}

/// The ranges that have bytes, in order of their addresses.
template <typename RangeOf>
std::vector<Range> sorted_ranges(const MemoryUse& use, std::span<const TensorMemory> tensors,
                                 RangeOf range_of) {
  std::vector<Range> ranges;
  ranges.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Range range = range_of(use, tensors[i], i);
    if (range.bytes > 0) ranges.push_back(range);
  }
  const auto by_address = [](const Range& a, const Range& b) { return a.begin < b.begin; };
  if (!std::is_sorted(ranges.begin(), ranges.end(), by_address)) {
    std::sort(ranges.begin(), ranges.end(), by_address);
  }
  return ranges;
}

/// Of several tensors, no output overlaps another output, or another tensor's input.
Status check_between(const MemoryUse& use, std::span<const TensorMemory> tensors) {
  const std::vector<Range> outputs = sorted_ranges(use, tensors, output_of);
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    if (!outputs[i].meets(outputs[i - 1])) continue;
    return overlap(use, tensors, outputs[i], "output", outputs[i - 1]);
  }
  const auto in_place = [](const TensorMemory& tensor) { return tensor.in == tensor.out; };
  if (std::all_of(tensors.begin(), tensors.end(), in_place)) return {};
  auto out = outputs.begin();
  for (const Range& in : sorted_ranges(use, tensors, input_of)) {
    while (out != outputs.end() && out->end() <= in.begin) ++out;
    for (auto met = out; met != outputs.end() && met->begin < in.end(); ++met) {
      if (met->tensor != in.tensor) return overlap(use, tensors, *met, "input", in);
    }
  }
  return {};
}

}  // namespace

Status check_memory(const MemoryUse& use, std::span<const TensorMemory> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    RONDE_RETURN_IF_ERROR(check_addresses(use, tensors[i], i, tensors.size()));
    const Range in = input_of(use, tensors[i], i);
    const Range out = output_of(use, tensors[i], i);
    if (in.meets(out) && !is_in_place(use, tensors[i], in, out))
      return overlap(use, tensors, out, "input", in);
  }
  return tensors.size() > 1 ? check_between(use, tensors) : Status();
}

}  // namespace ronde
