// The collectives, with one row of facts for each. Other code asks the row, not for the kind.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/enum_table.h"
#include "core/base/status.h"

namespace ronde {

/// A collective. Values travel on the wire and never change.
enum class Collective : std::uint8_t {
  kAllreduce = 0,
  kAllgather = 1,
  kBroadcast = 2,
  kReduceScatter = 3,
  kAlltoall = 4,
  kReduce = 5,
  kGather = 6,
  kScatter = 7,
  kBarrier = 8,
  kJoin = 9,
  kSparseAllreduce = 10,
};

/// The part of the tensor that a rank's input or output holds.
enum class BufferLayout : std::uint8_t {
  kNone,
  kWhole,
  kOwnChunk,  ///< This rank's chunk.
  kChunks,    ///< Every rank's chunk, in order of rank.
  kSends,     ///< A part for each rank, by the caller's splits.
  kReceives,  ///< A part from each rank.
  kRows,      ///< Some rows of the whole tensor, with their indices.
};

/// One side of a collective.
struct BufferTraits {
  BufferLayout layout = BufferLayout::kNone;
  bool root_only = false;  ///< Other ranks have none.
};

/// The tensor that the shape in a request describes.
enum class ShapeOf : std::uint8_t {
  kNothing,
  kTensor,  ///< The whole tensor. All ranks agree on it.
  kInput,   ///< This rank's input. All but the first extent must agree.
  kOutput,  ///< This rank's output. All ranks agree on it.
};

/// Bytes that the busiest link carries for each byte of the tensor, with n ranks.
enum class BusFactor : std::uint8_t {
  kWhole,        ///< 1
  kOthers,       ///< (n-1)/n: all chunks but one.
  kOthersTwice,  ///< 2(n-1)/n
};

/// The codecs that tensors of a collective may travel by.
enum class Codecs : std::uint8_t {
  kNone,
  kRounding,  ///< Those that round each element, to 4 to 16 bits.
  kAny,
};

/// The facts of a collective, on all data planes.
struct CollectiveTraits {
  Collective value;
  std::string_view name;         ///< The field's: "reduce_scatter".
  std::string_view negotiation;  ///< Event in timelines, as Horovod's: "NEGOTIATE_REDUCESCATTER".
  BufferTraits input{};
  BufferTraits output{};
  ShapeOf shape = ShapeOf::kNothing;
  BusFactor bus = BusFactor::kWhole;
  bool reduces = false;  ///< Combines elements: operator and scale factors matter and agree.
  bool fuses = false;    ///< Several tensors may share one bundle.
  Codecs codecs = Codecs::kNone;
  bool outlives_join = false;  ///< Goes on without the ranks that have joined.

  /// Event of the work in timelines, as Horovod's: "REDUCESCATTER".
  [[nodiscard]] constexpr std::string_view event() const noexcept {
    return negotiation.substr(std::string_view("NEGOTIATE_").size());
  }
  /// Has a root, on which all ranks agree.
  [[nodiscard]] constexpr bool rooted() const noexcept {
    return input.root_only || output.root_only;
  }
  /// Has tensors. The others end when all ranks agree.
  [[nodiscard]] constexpr bool moves_data() const noexcept { return shape != ShapeOf::kNothing; }
  /// Takes one tensor, and splits for it.
  [[nodiscard]] constexpr bool has_splits() const noexcept {
    return input.layout == BufferLayout::kSends;
  }
  /// Takes one tensor, and the indices of its rows.
  [[nodiscard]] constexpr bool has_indices() const noexcept {
    return input.layout == BufferLayout::kRows;
  }
  /// Work has chunk_bytes.
  [[nodiscard]] constexpr bool has_chunks() const noexcept {
    return input.layout == BufferLayout::kOwnChunk || output.layout == BufferLayout::kOwnChunk;
  }
  /// Any slice of the tensor can be done on its own: bundles may be partitioned.
  [[nodiscard]] constexpr bool element_wise() const noexcept {
    return input.layout == BufferLayout::kWhole && output.layout == BufferLayout::kWhole;
  }
  /// The root's output, where it has one, is a copy of its input.
  [[nodiscard]] constexpr bool root_copies() const noexcept {
    return input.root_only && element_wise();
  }
  /// The first extent may differ between ranks.
  [[nodiscard]] constexpr bool has_free_first_extent() const noexcept {
    return shape == ShapeOf::kInput;
  }
  /// The first dimension is divided between ranks, or made of what they have.
  [[nodiscard]] constexpr bool divides_rows() const noexcept {
    return shape == ShapeOf::kInput || (shape == ShapeOf::kTensor && !element_wise());
  }
  /// Bus bandwidth over algorithm bandwidth, with `ranks` ranks.
  [[nodiscard]] constexpr double bus_factor(int ranks) const noexcept {
    const double n = ranks;
    if (bus == BusFactor::kOthersTwice) return 2 * (n - 1) / n;
    return bus == BusFactor::kOthers ? (n - 1) / n : 1;
  }
};

/// One row for each collective, in the order of their values.
inline constexpr std::array kCollectives = {
    CollectiveTraits{.value = Collective::kAllreduce,
                     .name = "allreduce",
                     .negotiation = "NEGOTIATE_ALLREDUCE",
                     .input = {.layout = BufferLayout::kWhole},
                     .output = {.layout = BufferLayout::kWhole},
                     .shape = ShapeOf::kTensor,
                     .bus = BusFactor::kOthersTwice,
                     .reduces = true,
                     .fuses = true,
                     .codecs = Codecs::kAny,
                     .outlives_join = true},
    CollectiveTraits{.value = Collective::kAllgather,
                     .name = "allgather",
                     .negotiation = "NEGOTIATE_ALLGATHER",
                     .input = {.layout = BufferLayout::kOwnChunk},
                     .output = {.layout = BufferLayout::kChunks},
                     .shape = ShapeOf::kInput,
                     .bus = BusFactor::kOthers,
                     .fuses = true,
                     .codecs = Codecs::kRounding},
    CollectiveTraits{.value = Collective::kBroadcast,
                     .name = "broadcast",
                     .negotiation = "NEGOTIATE_BROADCAST",
                     .input = {.layout = BufferLayout::kWhole, .root_only = true},
                     .output = {.layout = BufferLayout::kWhole},
                     .shape = ShapeOf::kTensor,
                     .fuses = true},
    CollectiveTraits{.value = Collective::kReduceScatter,
                     .name = "reduce_scatter",
                     .negotiation = "NEGOTIATE_REDUCESCATTER",
                     .input = {.layout = BufferLayout::kChunks},
                     .output = {.layout = BufferLayout::kOwnChunk},
                     .shape = ShapeOf::kTensor,
                     .bus = BusFactor::kOthers,
                     .reduces = true,
                     .fuses = true,
                     .codecs = Codecs::kRounding},
    CollectiveTraits{.value = Collective::kAlltoall,
                     .name = "alltoall",
                     .negotiation = "NEGOTIATE_ALLTOALL",
                     .input = {.layout = BufferLayout::kSends},
                     .output = {.layout = BufferLayout::kReceives},
                     .shape = ShapeOf::kInput,
                     .bus = BusFactor::kOthers},
    CollectiveTraits{.value = Collective::kReduce,
                     .name = "reduce",
                     .negotiation = "NEGOTIATE_REDUCE",
                     .input = {.layout = BufferLayout::kWhole},
                     .output = {.layout = BufferLayout::kWhole, .root_only = true},
                     .shape = ShapeOf::kTensor,
                     .reduces = true,
                     .fuses = true},
    CollectiveTraits{.value = Collective::kGather,
                     .name = "gather",
                     .negotiation = "NEGOTIATE_GATHER",
                     .input = {.layout = BufferLayout::kOwnChunk},
                     .output = {.layout = BufferLayout::kChunks, .root_only = true},
                     .shape = ShapeOf::kInput},
    CollectiveTraits{.value = Collective::kScatter,
                     .name = "scatter",
                     .negotiation = "NEGOTIATE_SCATTER",
                     .input = {.layout = BufferLayout::kChunks, .root_only = true},
                     .output = {.layout = BufferLayout::kOwnChunk},
                     .shape = ShapeOf::kOutput},
    CollectiveTraits{
        .value = Collective::kBarrier, .name = "barrier", .negotiation = "NEGOTIATE_BARRIER"},
    CollectiveTraits{.value = Collective::kJoin, .name = "join", .negotiation = "NEGOTIATE_JOIN"},
    CollectiveTraits{.value = Collective::kSparseAllreduce,
                     .name = "sparse_allreduce",
                     .negotiation = "NEGOTIATE_SPARSE_ALLREDUCE",
                     .input = {.layout = BufferLayout::kRows},
                     .output = {.layout = BufferLayout::kRows},
                     .shape = ShapeOf::kInput,
                     .reduces = true,
                     .outlives_join = true},
};
inline constexpr int kCollectiveCount = static_cast<int>(kCollectives.size());
static_assert(is_in_order(kCollectives));

/// The row of a known collective.
constexpr const CollectiveTraits& traits_of(Collective kind) noexcept {
  return kCollectives[static_cast<std::size_t>(kind)];
}

/// True where `kind` can reduce with `op`, or does not reduce. Adasum is for allreduces alone. Rows
/// that a rank does not have count as zeros, so that sparse ones are summed and averaged only.
constexpr bool is_defined(ReduceOp op, Collective kind) noexcept {
  if (traits_of(kind).has_indices()) return op == ReduceOp::kSum || op == ReduceOp::kAverage;
  return !traits_of(kind).reduces || is_element_wise(op) || kind == Collective::kAllreduce;
}

/// The name in the table; "?" for an unknown value.
constexpr std::string_view to_string(Collective kind) noexcept {
  return name_in(kCollectives, kind);
}

/// The inverse of to_string. Errors: kInvalidArgument naming the value and what is allowed.
inline Result<Collective> parse_collective(std::string_view text) {
  return parse_in(kCollectives, text, "collective");
}

}  // namespace ronde
