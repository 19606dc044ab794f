#include "core/base/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace ronde {
namespace {

constexpr std::array<std::string_view, kDTypeCount> kDTypes = {
    "uint8",    "int8",    "int16",   "int32", "int64",         "float16",
    "bfloat16", "float32", "float64", "bool",  "float8_e4m3fn", "float8_e5m2"};
constexpr std::array<std::string_view, kReduceOpCount> kOps = {
    "sum", "average", "min", "max", "product", "bitand", "bitor", "bitxor"};
constexpr std::array<std::string_view, kCollectiveCount> kCollectives = {
    "allreduce", "allgather", "broadcast", "reduce_scatter", "alltoall",
    "reduce",    "gather",    "scatter",   "barrier",        "join"};

template <typename Enum, std::size_t N>
std::string_view name_of(const std::array<std::string_view, N>& names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? names[index] : "?";
}

template <typename Enum, std::size_t N>
Result<Enum> parse(const std::array<std::string_view, N>& names, std::string_view text,
                   std::string_view what) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return Status(Code::kInvalidArgument, fmt::format("{} \"{}\" is unknown; allowed: {}", what, text,
                                                    fmt::join(names, ", ")));
}

}  // namespace

std::string_view to_string(DType dtype) noexcept { return name_of(kDTypes, dtype); }
std::string_view to_string(ReduceOp op) noexcept { return name_of(kOps, op); }
std::string_view to_string(Collective kind) noexcept { return name_of(kCollectives, kind); }

Result<DType> parse_dtype(std::string_view text) { return parse<DType>(kDTypes, text, "dtype"); }
Result<ReduceOp> parse_reduce_op(std::string_view text) {
  return parse<ReduceOp>(kOps, text, "reduce operation");
}
Result<Collective> parse_collective(std::string_view text) {
  return parse<Collective>(kCollectives, text, "collective");
}

}  // namespace ronde
