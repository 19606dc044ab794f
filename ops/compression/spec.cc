#include "ops/compression/spec.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <vector>

namespace ronde {
namespace {

/// What a name stands for without parameters, and which parameters it has.
struct Known {
  std::string_view name;
  CompressionSpec defaults;
  bool blocks = false;
  bool rounds = false;
};

constexpr std::array kKnown{
    Known{"fp16", {.kind = CodecKind::kFp16, .error_feedback = false}},
    Known{"bf16", {.kind = CodecKind::kBf16, .error_feedback = false}},
    Known{"int8", {.kind = CodecKind::kInt8, .block = 512}, true, true},
    Known{"int4", {.kind = CodecKind::kInt4, .block = 256}, true, true},
    Known{"onebit", {.kind = CodecKind::kOnebit, .block = 1024}, true},
};

const Known& known(CodecKind kind) { return kKnown[static_cast<std::size_t>(kind)]; }

Status invalid(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("compression '{}': {}", text, why)};
}

std::string allowed_keys(const Known& of) {
  return fmt::format("ef{}{}", of.blocks ? ", block" : "", of.rounds ? ", rounding, seed" : "");
}

bool read_number(std::string_view text, std::uint64_t& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

/// Sets `flag` where `value` is one of the two words.
bool read_choice(std::string_view value, std::string_view yes, std::string_view no, bool& flag) {
  flag = value == yes;
  return flag || value == no;
}

Status set_block(std::string_view text, std::string_view value, CompressionSpec& spec) {
  std::uint64_t block = 0;
  if (!read_number(value, block) || block == 0 || block % 64 != 0 || block > kMaxBlock) {
    return invalid(
        text, fmt::format("block={}; allowed: multiples of 64 from 64 to {}", value, kMaxBlock));
  }
  spec.block = block;
  return {};
}

Status set_parameter(std::string_view text, std::string_view parameter, CompressionSpec& spec) {
  const Known& of = known(spec.kind);
  const std::size_t equals = parameter.find('=');
  const std::string_view key = parameter.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : parameter.substr(equals + 1);
  if (key == "ef") {
    if (read_choice(value, "on", "off", spec.error_feedback)) return {};
    return invalid(text, fmt::format("ef={}; allowed: on, off", value));
  }
  if (key == "block" && of.blocks) return set_block(text, value, spec);
  if (key == "rounding" && of.rounds) {
    if (read_choice(value, "stochastic", "nearest", spec.stochastic)) return {};
    return invalid(text, fmt::format("rounding={}; allowed: nearest, stochastic", value));
  }
  if (key == "seed" && of.rounds) {
    if (read_number(value, spec.seed)) return {};
    return invalid(text, fmt::format("seed={}; allowed: whole numbers from 0", value));
  }
  return invalid(
      text, fmt::format("{} has no parameter '{}'; allowed: {}", of.name, key, allowed_keys(of)));
}

}  // namespace

Result<CompressionSpec> parse_compression(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (const Known& candidate : kKnown) {
    if (candidate.name != name) continue;
    CompressionSpec spec = candidate.defaults;
    std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      RONDE_RETURN_IF_ERROR(set_parameter(text, rest.substr(0, comma), spec));
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    }
    return spec;
  }
  std::vector<std::string_view> names;
  for (const Known& candidate : kKnown) names.push_back(candidate.name);
  return invalid(text, fmt::format("not known; allowed: {}", fmt::join(names, ", ")));
}

std::string to_string(const CompressionSpec& spec) {
  const Known& of = known(spec.kind);
  std::vector<std::string> parameters;
  if (spec.block != of.defaults.block) parameters.push_back(fmt::format("block={}", spec.block));
  if (spec.stochastic) parameters.emplace_back("rounding=stochastic");
  if (spec.seed != 0) parameters.push_back(fmt::format("seed={}", spec.seed));
  if (spec.error_feedback != of.defaults.error_feedback) {
    parameters.emplace_back(spec.error_feedback ? "ef=on" : "ef=off");
  }
  return fmt::format("{}{}{}", of.name, parameters.empty() ? "" : ":", fmt::join(parameters, ","));
}

Status check_compressible(Collective kind, DType dtype, ReduceOp op) {
  if (kind != Collective::kAllreduce) {
    return {Code::kInvalidArgument,
            fmt::format("compression of {} is not defined; allowed: allreduce", to_string(kind))};
  }
  if (!is_floating(dtype)) {
    return {Code::kInvalidArgument,
            fmt::format("compression of {} is not defined; allowed: float16, bfloat16, float32, "
                        "float64",
                        to_string(dtype))};
  }
  if (op != ReduceOp::kSum && op != ReduceOp::kAverage) {
    return {
        Code::kInvalidArgument,
        fmt::format("compression with op {} is not defined; allowed: sum, average", to_string(op))};
  }
  return {};
}

}  // namespace ronde
