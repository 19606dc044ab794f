#include "ops/compression/spec.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <vector>

#include "core/base/join_text.h"
#include "ops/compression/registry.h"

namespace ronde {
namespace {

constexpr std::string_view kSinceLoad = " since load ";

Status invalid(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("compression '{}': {}", text, why)};
}

/// A member of each element, for people.
template <typename Elements, typename Member>
std::string list_of(const Elements& elements, Member member) {
  std::vector<std::string_view> texts;
  texts.reserve(std::size(elements));
  for (const auto& one : elements) texts.push_back(std::invoke(member, one));
  return join_text(texts, ", ");
}

/// The text in front of a separator; takes both from `text`.
std::string_view take_until(char separator, std::string_view& text) {
  const std::size_t end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return taken;
}

Status set_parameter(std::string_view text, std::string_view assignment, CompressionSpec& spec) {
  std::string_view value = assignment;
  const std::string_view key = take_until('=', value);
  const CodecRow& row = codec_row(spec.kind);
  for (const CodecParameter& one : row.parameters) {
    if (one.key != key) continue;
    if (one.read(value, spec)) return {};
    return invalid(text, fmt::format("{}={}; allowed: {}", key, value, one.allowed()));
  }
  return invalid(text, fmt::format("{} has no parameter '{}'; allowed: {}", row.name, key,
                                   list_of(row.parameters, &CodecParameter::key)));
}

/// Values that are allowed each but not together.
Status check_together(std::string_view text, const CompressionSpec& spec) {
  if (const auto conflict = codec_row(spec.kind).conflict; conflict != nullptr) {
    if (const std::string_view why = conflict(spec); !why.empty()) return invalid(text, why);
  }
  if (spec.residual != ResidualFormat::kFp32 && !spec.error_feedback) {
    return invalid(text, "residual=bf16 needs ef=on: nothing is kept without");
  }
  return {};
}

Result<const CodecRow*> find_row(std::string_view text, std::string_view name) {
  for (const CodecRow* row : kCodecRows) {
    if (row->name == name) return row;
  }
  return invalid(text,
                 fmt::format("not known; allowed: {}",
                             list_of(kCodecRows, [](const CodecRow* row) { return row->name; })));
}

/// Reads a text. In training the default of `warmup` is the codec's own.
Result<CompressionSpec> parse(std::string_view text, bool in_training) {
  std::string_view rest = text;
  RONDE_ASSIGN_OR_RETURN(const CodecRow* row, find_row(text, take_until(':', rest)));
  CompressionSpec spec = row->defaults;
  if (in_training) spec.warmup = row->training_warmup;
  while (!rest.empty()) {
    RONDE_RETURN_IF_ERROR(set_parameter(text, take_until(',', rest), spec));
  }
  RONDE_RETURN_IF_ERROR(check_together(text, spec));
  return spec;
}

}  // namespace

Result<CompressionSpec> parse_compression(std::string_view text) { return parse(text, false); }

Result<CompressionSpec> training_compression(std::string_view text) {
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse(text, false));
  return spec.error_feedback ? parse(text, true) : spec;
}

std::string to_string(const CompressionSpec& spec) {
  const CodecRow& row = codec_row(spec.kind);
  std::vector<std::string> assignments;
  for (const CodecParameter& one : row.parameters) {
    std::string value = one.write(spec);
    if (value != one.write(row.defaults)) {
      assignments.push_back(fmt::format("{}={}", one.key, value));
    }
  }
  return fmt::format("{}{}{}", row.name, assignments.empty() ? "" : ":",
                     join_text(assignments, ","));
}

std::string since_load(const CompressionSpec& spec, std::uint64_t load) {
  std::string text = to_string(spec);
  if (load > 0 && begins_dense(spec)) text += fmt::format("{}{}", kSinceLoad, load);
  return text;
}

std::string_view without_load(std::string_view text) noexcept {
  return text.substr(0, text.find(kSinceLoad));
}

Status check_compressible(Collective kind, DType dtype, ReduceOp op) {
  if (traits_of(kind).codecs == Codecs::kNone) {
    std::vector<std::string_view> allowed;
    for (const CollectiveTraits& row : kCollectives) {
      if (row.codecs != Codecs::kNone) allowed.push_back(row.name);
    }
    return {Code::kInvalidArgument, fmt::format("compression of {} is not defined; allowed: {}",
                                                to_string(kind), join_text(allowed, ", "))};
  }
  if (!is_floating(dtype) || is_float8(dtype)) {
    return {Code::kInvalidArgument,
            fmt::format("compression of {} is not defined; allowed: float16, bfloat16, float32, "
                        "float64",
                        to_string(dtype))};
  }
  if (traits_of(kind).reduces && op != ReduceOp::kSum && op != ReduceOp::kAverage) {
    return {
        Code::kInvalidArgument,
        fmt::format("compression with op {} is not defined; allowed: sum, average", to_string(op))};
  }
  return {};
}

Status check_codec(Collective kind, const CompressionSpec& spec) {
  if (traits_of(kind).codecs == Codecs::kAny || rounds(codec_row(spec.kind))) return {};
  std::vector<std::string_view> allowed;
  for (const CodecRow* row : kCodecRows) {
    if (rounds(*row)) allowed.push_back(row->name);
  }
  return {Code::kInvalidArgument,
          fmt::format("compression {} of {} is not defined; allowed: {}, none",
                      codec_name(spec.kind), to_string(kind), join_text(allowed, ", "))};
}

}  // namespace ronde
