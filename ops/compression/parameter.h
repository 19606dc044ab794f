// A parameter of a codec: its names, the values it takes, and the member of CompressionSpec that
// holds it. Texts, Python, `ronde doctor` and docs/compression.md read the same description.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "ops/compression/spec.h"

namespace ronde {

/// Multiples of `step` from `least` to `most`.
struct WholeNumbers {
  std::uint64_t CompressionSpec::*member = nullptr;
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t step = 1;
};

/// Finite numbers between two limits.
struct RealNumbers {
  double CompressionSpec::*member = nullptr;
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool without_least = false;  ///< The limit itself is not allowed.
  bool without_most = false;
};

/// One of a few words, each of which stands for a value.
struct Words {
  std::array<std::string_view, 3> words{};  ///< Unused ones are empty.
  /// The place of the spec's word.
  std::size_t (*get)(const CompressionSpec& spec) = nullptr;
  void (*set)(CompressionSpec& spec, std::size_t place) = nullptr;
  int on = -1;  ///< The index of a switch's word for true; else -1.
};

/// Words that stand for `kValues` of a member, in the same order. A bool's are those of a switch.
template <auto kMember, auto... kValues>
constexpr Words words_for(std::array<std::string_view, 3> words) {
  const auto get = [](const CompressionSpec& spec) {
    constexpr std::array kAll{kValues...};
    std::size_t place = 0;
    while (place + 1 < kAll.size() && kAll[place] != spec.*kMember) ++place;
    return place;
  };
  const auto set = [](CompressionSpec& spec, std::size_t place) {
    constexpr std::array kAll{kValues...};
    spec.*kMember = kAll[place];
  };
  constexpr std::array kAll{kValues...};
  int on = -1;
  if constexpr (std::is_same_v<decltype(kAll), const std::array<bool, 2>>) on = kAll[0] ? 0 : 1;
  return {words, get, set, on};
}

/// The words "on" and "off" for a member.
template <bool CompressionSpec::*kMember>
inline constexpr Words kOnOff = words_for<kMember, true, false>({"on", "off"});

/// Threads: any; constant.
struct CodecParameter {
  std::string_view key;       ///< In texts: "rounding".
  std::string_view argument;  ///< In Python: "stochastic".
  std::string_view help;      ///< A sentence without its full stop.
  std::variant<WholeNumbers, RealNumbers, Words> values;
  bool stands_last = false;  ///< In Python, behind the codec's other arguments.

  /// Reads a value as texts give it. False, with an unspecified spec, if it is not allowed.
  bool read(std::string_view value, CompressionSpec& spec) const;
  /// The value as read() takes it.
  [[nodiscard]] std::string write(const CompressionSpec& spec) const;
  /// The values that read() takes: "above 0, up to 1".
  [[nodiscard]] std::string allowed() const;
};

/// Parameters that several codecs share.
namespace parameters {

inline constexpr CodecParameter kBlock{"block", "block", "Elements that share a scale or two means",
                                       WholeNumbers{&CompressionSpec::block, 64, kMaxBlock, 64}};
inline constexpr CodecParameter kRounding{
    "rounding", "stochastic",
    "Rounds up or down at random, right on average, instead of to the nearest",
    words_for<&CompressionSpec::stochastic, false, true>({"nearest", "stochastic"})};
inline constexpr CodecParameter kRatio{"ratio", "ratio", "Share of the elements that is sent",
                                       RealNumbers{&CompressionSpec::ratio, 0, 1, true}};
inline constexpr CodecParameter kWarmup{"warmup", "warmup",
                                        "Steps in which a tensor travels dense before",
                                        WholeNumbers{&CompressionSpec::warmup}, true};
inline constexpr CodecParameter kSeed{
    "seed", "seed", "Random bits depend on it, on the tensor's name, its step and the rank",
    WholeNumbers{&CompressionSpec::seed}};
inline constexpr CodecParameter kErrorFeedback{
    "ef", "error_feedback", "Keeps what a step loses of a tensor and adds it to the next one",
    kOnOff<&CompressionSpec::error_feedback>};
inline constexpr CodecParameter kResidual{
    "residual", "residual", "What error feedback keeps its elements in; bf16 takes half the memory",
    words_for<&CompressionSpec::residual, ResidualFormat::kFp32, ResidualFormat::kBf16>(
        {"fp32", "bf16"})};
inline constexpr CodecParameter kAccuracy{
    "accuracy", "accuracy",
    "What it may lose: nothing; what 16 bits do not hold; anything, with error feedback",
    words_for<&CompressionSpec::accuracy, Accuracy::kLossless, Accuracy::kSafe,
              Accuracy::kAggressive>({"lossless", "safe", "aggressive"})};

}  // namespace parameters

/// "lossless", "safe" or "aggressive".
std::string_view to_string(Accuracy accuracy);

}  // namespace ronde
