#include "ops/compression/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

namespace ronde {
namespace {

/// What a name stands for without parameters.
struct Known {
  std::string_view name;
  CompressionSpec defaults;
};

constexpr std::array kKnown{
    Known{"fp16", {.kind = CodecKind::kFp16, .error_feedback = false}},
    Known{"bf16", {.kind = CodecKind::kBf16, .error_feedback = false}},
    Known{"int8", {.kind = CodecKind::kInt8, .block = 512}},
    Known{"int4", {.kind = CodecKind::kInt4, .block = 256}},
    Known{"onebit", {.kind = CodecKind::kOnebit, .block = 64}},
    Known{"topk", {.kind = CodecKind::kTopk, .ratio = 0.01}},
    Known{"randomk", {.kind = CodecKind::kRandomk, .ratio = 0.01}},
    Known{"powersgd", {.kind = CodecKind::kPowersgd, .rank = 4}},
    Known{"auto", {.kind = CodecKind::kAuto}},
};

const Known& known(CodecKind kind) { return kKnown[static_cast<std::size_t>(kind)]; }

constexpr std::string_view kSinceLoad = " since load ";

// Steps of a warm-up in which all is sent, and of one that ends in stages (see ratio_at), which
// sends as much as 200 dense ones where ratio is 1/64 or less.
constexpr std::uint64_t kDenseWarmup = 200;
constexpr std::uint64_t kStagedWarmup = 1600;

constexpr unsigned bit(CodecKind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kAutoOnly = bit(CodecKind::kAuto);
constexpr unsigned kAll = ~kAutoOnly;
constexpr unsigned kRounding = bit(CodecKind::kInt8) | bit(CodecKind::kInt4);
constexpr unsigned kBlocks = kRounding | bit(CodecKind::kOnebit);
constexpr unsigned kTopkOnly = bit(CodecKind::kTopk);
constexpr unsigned kSparse = kTopkOnly | bit(CodecKind::kRandomk);
constexpr unsigned kLittle = kSparse | bit(CodecKind::kOnebit) | bit(CodecKind::kPowersgd);

/// Reads all of a text as a number.
template <typename T>
bool read_number(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

/// A finite number that `allowed` allows.
bool read_real(std::string_view text, double& value, bool (*allowed)(double)) {
  return read_number(text, value) && std::isfinite(value) && allowed(value);
}

/// Sets `flag` where `value` is one of the two words.
bool read_choice(std::string_view value, std::string_view yes, std::string_view no, bool& flag) {
  flag = value == yes;
  return flag || value == no;
}

bool read_switch(std::string_view value, bool& flag) {
  return read_choice(value, "on", "off", flag);
}

bool read_block(std::string_view value, CompressionSpec& spec) {
  std::uint64_t block = 0;
  if (!read_number(value, block)) return false;
  spec.block = block;
  return block != 0 && block % 64 == 0 && block <= kMaxBlock;
}

bool read_rank(std::string_view value, CompressionSpec& spec) {
  return read_number(value, spec.rank) && spec.rank >= 1 && spec.rank <= kMaxRank;
}

constexpr std::array<std::string_view, 3> kAccuracies{"lossless", "safe", "aggressive"};

bool read_accuracy(std::string_view value, CompressionSpec& spec) {
  const auto* const found = std::find(kAccuracies.begin(), kAccuracies.end(), value);
  if (found == kAccuracies.end()) return false;
  spec.accuracy = static_cast<Accuracy>(found - kAccuracies.begin());
  return true;
}

bool read_residual(std::string_view value, CompressionSpec& spec) {
  bool narrow = false;
  const bool known = read_choice(value, "bf16", "fp32", narrow);
  spec.residual = narrow ? ResidualFormat::kBf16 : ResidualFormat::kFp32;
  return known;
}

const char* on_off(bool flag) { return flag ? "on" : "off"; }

using Text = std::string_view;
using Spec = CompressionSpec;

/// One parameter: of which codecs, what is allowed, and how it is read and written.
struct Parameter {
  Text key;
  unsigned codecs;
  Text allowed;
  bool (*read)(Text, Spec&);
  std::string (*write)(const Spec&);
};

// In the order in which they are written.
constexpr std::array kParameters{
    Parameter{"block", kBlocks, "multiples of 64 from 64 to 4096", read_block,
              [](const Spec& s) { return fmt::format("{}", s.block); }},
    Parameter{"rounding", kRounding, "nearest, stochastic",
              [](Text t, Spec& s) { return read_choice(t, "stochastic", "nearest", s.stochastic); },
              [](const Spec& s) -> std::string { return s.stochastic ? "stochastic" : "nearest"; }},
    Parameter{"ratio", kSparse, "above 0, up to 1",
              [](Text t, Spec& s) {
                return read_real(t, s.ratio, [](double r) { return r > 0 && r <= 1; });
              },
              [](const Spec& s) { return fmt::format("{}", s.ratio); }},
    Parameter{"select", kTopkOnly, "exact, sampled",
              [](Text t, Spec& s) { return read_choice(t, "sampled", "exact", s.sampled); },
              [](const Spec& s) -> std::string { return s.sampled ? "sampled" : "exact"; }},
    Parameter{"momentum", kTopkOnly, "from 0 to below 1",
              [](Text t, Spec& s) {
                return read_real(t, s.momentum, [](double m) { return m >= 0 && m < 1; });
              },
              [](const Spec& s) { return fmt::format("{}", s.momentum); }},
    Parameter{"nesterov", kTopkOnly, "on, off",
              [](Text t, Spec& s) { return read_switch(t, s.nesterov); },
              [](const Spec& s) -> std::string { return on_off(s.nesterov); }},
    Parameter{"masking", kTopkOnly, "on, off",
              [](Text t, Spec& s) { return read_switch(t, s.masking); },
              [](const Spec& s) -> std::string { return on_off(s.masking); }},
    Parameter{"warmup", kLittle, "whole numbers of steps from 0",
              [](Text t, Spec& s) { return read_number(t, s.warmup); },
              [](const Spec& s) { return fmt::format("{}", s.warmup); }},
    Parameter{"clip", kTopkOnly, "a norm from 0; 0 means any",
              [](Text t, Spec& s) { return read_real(t, s.clip, [](double c) { return c >= 0; }); },
              [](const Spec& s) { return fmt::format("{}", s.clip); }},
    Parameter{"rank", bit(CodecKind::kPowersgd), "whole numbers from 1 to 64", read_rank,
              [](const Spec& s) { return fmt::format("{}", s.rank); }},
    Parameter{"accuracy", kAutoOnly, "lossless, safe, aggressive", read_accuracy,
              [](const Spec& s) { return std::string(to_string(s.accuracy)); }},
    Parameter{"seed", kRounding | bit(CodecKind::kRandomk) | bit(CodecKind::kPowersgd),
              "whole numbers from 0", [](Text t, Spec& s) { return read_number(t, s.seed); },
              [](const Spec& s) { return fmt::format("{}", s.seed); }},
    Parameter{"ef", kAll, "on, off",
              [](Text t, Spec& s) { return read_switch(t, s.error_feedback); },
              [](const Spec& s) -> std::string { return on_off(s.error_feedback); }},
    Parameter{"residual", kAll | kAutoOnly, "fp32, bf16", read_residual,
              [](const Spec& s) -> std::string {
                return s.residual == ResidualFormat::kBf16 ? "bf16" : "fp32";
              }},
};

Status invalid(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("compression '{}': {}", text, why)};
}

std::string allowed_keys(CodecKind kind) {
  std::vector<std::string_view> keys;
  for (const Parameter& one : kParameters) {
    if ((one.codecs & bit(kind)) != 0) keys.push_back(one.key);
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

Status set_parameter(std::string_view text, std::string_view parameter, CompressionSpec& spec) {
  const std::size_t equals = parameter.find('=');
  const std::string_view key = parameter.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : parameter.substr(equals + 1);
  for (const Parameter& one : kParameters) {
    if (one.key != key || (one.codecs & bit(spec.kind)) == 0) continue;
    if (one.read(value, spec)) return {};
    return invalid(text, fmt::format("{}={}; allowed: {}", key, value, one.allowed));
  }
  return invalid(text, fmt::format("{} has no parameter '{}'; allowed: {}", known(spec.kind).name,
                                   key, allowed_keys(spec.kind)));
}

/// What no parameter says alone.
Status check_together(std::string_view text, const CompressionSpec& spec) {
  if (spec.momentum > 0 && !spec.error_feedback) {
    return invalid(text, "momentum needs ef=on: it is kept with what is left over");
  }
  if (spec.residual != ResidualFormat::kFp32 && !spec.error_feedback) {
    return invalid(text, "residual=bf16 needs ef=on: nothing is kept without");
  }
  if (spec.nesterov && spec.momentum == 0) return invalid(text, "nesterov=on needs a momentum");
  return {};
}

/// What a text says, from the defaults of its codec on as `adjust` makes them.
Result<CompressionSpec> parse(std::string_view text, void (*adjust)(CompressionSpec&)) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (const Known& candidate : kKnown) {
    if (candidate.name != name) continue;
    CompressionSpec spec = candidate.defaults;
    adjust(spec);
    std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      RONDE_RETURN_IF_ERROR(set_parameter(text, rest.substr(0, comma), spec));
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    }
    RONDE_RETURN_IF_ERROR(check_together(text, spec));
    return spec;
  }
  std::vector<std::string_view> names;
  names.reserve(std::size(kKnown));
  for (const Known& candidate : kKnown) names.push_back(candidate.name);
  return invalid(text, fmt::format("not known; allowed: {}", fmt::join(names, ", ")));
}

}  // namespace

Result<CompressionSpec> parse_compression(std::string_view text) {
  return parse(text, [](CompressionSpec&) {});
}

Result<CompressionSpec> training_compression(std::string_view text) {
  RONDE_ASSIGN_OR_RETURN(CompressionSpec spec, parse_compression(text));
  const bool waits = spec.error_feedback && spec.kind != CodecKind::kAuto && sends_little(spec);
  if (!waits) return spec;
  return parse(text, [](CompressionSpec& defaults) {
    defaults.warmup = defaults.kind == CodecKind::kTopk ? kStagedWarmup : kDenseWarmup;
  });
}

std::string to_string(const CompressionSpec& spec) {
  const Known& of = known(spec.kind);
  std::vector<std::string> parameters;
  for (const Parameter& one : kParameters) {
    if ((one.codecs & bit(spec.kind)) == 0) continue;
    std::string value = one.write(spec);
    if (value != one.write(of.defaults)) parameters.push_back(fmt::format("{}={}", one.key, value));
  }
  return fmt::format("{}{}{}", of.name, parameters.empty() ? "" : ":", fmt::join(parameters, ","));
}

std::string since_load(const CompressionSpec& spec, std::uint64_t load) {
  std::string text = to_string(spec);
  if (load > 0 && begins_dense(spec)) text += fmt::format("{}{}", kSinceLoad, load);
  return text;
}

std::string_view without_load(std::string_view text) noexcept {
  return text.substr(0, text.find(kSinceLoad));
}

std::string_view to_string(Accuracy accuracy) {
  return kAccuracies[static_cast<std::size_t>(accuracy)];
}

std::string_view codec_name(CodecKind kind) { return known(kind).name; }

CompressionSpec default_spec(CodecKind kind) { return known(kind).defaults; }

Status check_compressible(Collective kind, DType dtype, ReduceOp op) {
  if (kind != Collective::kAllreduce) {
    return {Code::kInvalidArgument,
            fmt::format("compression of {} is not defined; allowed: allreduce", to_string(kind))};
  }
  if (!is_floating(dtype) || is_float8(dtype)) {
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
