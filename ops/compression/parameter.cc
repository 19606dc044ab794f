#include "ops/compression/parameter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "core/base/join_text.h"

namespace ronde {
namespace {

/// Reads all of a text as a number.
template <typename T>
bool read_number(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

std::span<const std::string_view> words_of(const Words& values) {
  const auto* const end = std::find(values.words.begin(), values.words.end(), std::string_view());
  return {values.words.begin(), end};
}

bool read_value(const WholeNumbers& values, std::string_view text, CompressionSpec& spec) {
  std::uint64_t& number = spec.*values.member;
  return read_number(text, number) && number >= values.least && number <= values.most &&
         number % values.step == 0;
}

bool read_value(const RealNumbers& values, std::string_view text, CompressionSpec& spec) {
  double& number = spec.*values.member;
  if (!read_number(text, number) || !std::isfinite(number)) return false;
  const bool above = values.without_least ? number > values.least : number >= values.least;
  const bool below = values.without_most ? number < values.most : number <= values.most;
  return above && below;
}

bool read_value(const Words& values, std::string_view text, CompressionSpec& spec) {
  const auto words = words_of(values);
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) return false;
  values.set(spec, static_cast<std::size_t>(found - words.begin()));
  return true;
}

std::string write_value(const WholeNumbers& values, const CompressionSpec& spec) {
  return fmt::format("{}", spec.*values.member);
}

std::string write_value(const RealNumbers& values, const CompressionSpec& spec) {
  return fmt::format("{}", spec.*values.member);
}

std::string write_value(const Words& values, const CompressionSpec& spec) {
  return std::string(values.words[values.get(spec)]);
}

std::string describe(const WholeNumbers& values) {
  std::string text =
      values.step == 1 ? "whole numbers" : fmt::format("multiples of {}", values.step);
  text += fmt::format(" from {}", values.least);
  if (values.most != WholeNumbers().most) text += fmt::format(" to {}", values.most);
  return text;
}

std::string describe(const RealNumbers& values) {
  std::string text = fmt::format("{} {}", values.without_least ? "above" : "from", values.least);
  if (std::isinf(values.most)) return text;
  return text + fmt::format("{} {}", values.without_most ? " to below" : ", up to", values.most);
}

std::string describe(const Words& values) { return join_text(words_of(values), ", "); }

}  // namespace

bool CodecParameter::read(std::string_view value, CompressionSpec& spec) const {
  return std::visit([&](const auto& kind) { return read_value(kind, value, spec); }, values);
}

std::string CodecParameter::write(const CompressionSpec& spec) const {
  return std::visit([&](const auto& kind) { return write_value(kind, spec); }, values);
}

std::string CodecParameter::allowed() const {
  return std::visit([](const auto& kind) { return describe(kind); }, values);
}

std::string_view to_string(Accuracy accuracy) {
  return std::get<Words>(parameters::kAccuracy.values).words[static_cast<std::size_t>(accuracy)];
}

}  // namespace ronde
