#include "ops/compression/auto/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <vector>

#include "core/base/clock.h"
#include "ops/compression/codec.h"
#include "ops/compression/low_rank/factors.h"
#include "ops/compression/registry.h"
#include "ops/compression/sparse/select.h"

namespace ronde {
namespace {

/// Elements of a tensor's factors; all of its elements if factors do not save half of them.
double low_rank_elements(const Shape& shape, std::size_t rank) {
  const auto count = static_cast<double>(element_count(shape));
  if (shape.size() < 2 || shape[0] == 0) return count;
  const auto rows = static_cast<std::size_t>(shape[0]);
  const LowRankShape matrix{rows, static_cast<std::size_t>(element_count(shape)) / rows, rank};
  return matrix.saves() ? static_cast<double>(rank * (matrix.rows + matrix.columns)) : count;
}

constexpr std::array kAutoParameters{parameters::kAccuracy, parameters::kResidual};

using Floats = std::vector<float>;

/// Seconds for each element of the fastest call. The first call does not count.
template <class Body>
double best_of(int repeats, std::size_t elements, const Body& body) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= repeats; ++i) {
    const TimePoint begin = now();
    body();
    if (i > 0) best = std::min(best, static_cast<double>(to_ns(now() - begin)));
  }
  return best * 1e-9 / static_cast<double>(std::max<std::size_t>(1, elements));
}

/// Values of both signs and many magnitudes.
Floats sample_values(std::size_t elements) {
  Floats values(elements);
  std::uint32_t random = 1;
  for (float& value : values) {
    random = random * 1664525U + 1013904223U;
    const float even = static_cast<float>(random >> 8) * 0x1p-23F - 1.0F;
    value = even * even * even;
  }
  return values;
}

/// `keeps`: encoding also writes what it loses, as for error feedback.
CodecSpeed measure_rounding(const Codec& codec, const Floats& values, bool keeps, int repeats) {
  std::vector<std::byte> frame(codec.encoded_bytes(values.size()));
  Floats out(values.size());
  const auto encode = [&] {
    codec.encode({.values = values, .frame = frame.data(), .lost = keeps ? out.data() : nullptr});
  };
  const auto decode = [&] { (void)codec.decode(frame, out); };
  return {best_of(repeats, values.size(), encode), best_of(repeats, values.size(), decode)};
}

CodecSpeed measure_selection(const Floats& values, int repeats) {
  std::vector<std::uint32_t> indices;
  const std::size_t k = values.size() / 100;
  return {best_of(repeats, values.size(), [&] { select_top(values, k, indices); }), 0};
}

CodecSpeed measure_projection(std::size_t rank, const Floats& values, int repeats) {
  const auto side = static_cast<std::size_t>(std::sqrt(static_cast<double>(values.size())));
  const LowRankShape shape{side, side, rank};
  Floats p(side * rank), q(side * rank), row(side);
  seed_columns(shape, 1, q.data());
  const auto encode = [&] {
    project(shape, values.data(), q.data(), p.data());
    orthogonalise(shape, p.data());
    project_back(shape, values.data(), p.data(), q.data());
  };
  const auto decode = [&] {
    for (std::size_t i = 0; i < side; ++i) expand_row(shape, p.data(), i, q.data(), row.data());
  };
  return {best_of(repeats, values.size(), encode), best_of(repeats, values.size(), decode)};
}

/// Passes over memory besides encoding once and decoding twice: to scale, to add the residual, to
/// look for NaN, to keep the new residual.
double passes(CodecKind kind) { return default_spec(kind).error_feedback ? 5 : 2; }

/// Processor time of this thread, in seconds.
double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

constinit const CodecRow kAutoCodec{
    .name = "auto",
    .title = "Auto",
    .summary =
        "Whichever codec, or none, is predicted to be fastest, by measuring links and codecs",
    .defaults = {.kind = CodecKind::kAuto},
    .parameters = kAutoParameters,
    .wire_share =
        [](const CompressionSpec&, const WireLoad& load) {
          return static_cast<double>(load.width) / sizeof(float);
        },
};

TensorLoad load_of(std::span<const Shape> shapes, std::size_t width) {
  TensorLoad load{.width = width};
  const std::size_t rank = default_spec(CodecKind::kPowersgd).rank;
  for (const Shape& shape : shapes) {
    load.elements += static_cast<double>(element_count(shape));
    load.low_rank_elements += low_rank_elements(shape, rank);
  }
  return load;
}

LinkCost link_cost(std::span<const DenseTime> times) noexcept {
  if (times.empty()) return {};
  LinkCost cost{.latency_s = times.front().seconds};
  if (times.size() == 1) return cost;
  const DenseTime& last = times.back();
  const DenseTime& before = times[times.size() - std::min<std::size_t>(3, times.size())];
  cost.byte_s =
      std::max(0.0, last.seconds - before.seconds) / static_cast<double>(last.bytes - before.bytes);
  return cost;
}

std::vector<CodecKind> candidates(Accuracy accuracy, std::size_t width, Codecs allowed) {
  std::vector<CodecKind> kinds{kDense};
  for (std::size_t i = 0; i < kCodecKinds; ++i) {
    const CodecRow& row = codec_row(static_cast<CodecKind>(i));
    const auto& place = row.auto_place;
    if (!place || place->accuracy > accuracy) continue;
    if (allowed != Codecs::kAny && !rounds(row)) continue;
    const bool rounds_nothing = width <= 2 && place->accuracy == Accuracy::kSafe;
    if (!rounds_nothing) kinds.push_back(static_cast<CodecKind>(i));
  }
  std::sort(kinds.begin() + 1, kinds.end(), [](CodecKind a, CodecKind b) {
    return codec_row(a).auto_place->loss < codec_row(b).auto_place->loss;
  });
  return kinds;
}

double wire_share(CodecKind kind, const TensorLoad& load) noexcept {
  const double low_rank = load.elements > 0 ? load.low_rank_elements / load.elements : 0;
  return codec_row(kind).wire_share(default_spec(kind), {load.width, low_rank});
}

double predict(CodecKind kind, const TensorLoad& load, const LinkCost& link,
               const CodecCosts& codecs) noexcept {
  const double bytes = load.elements * sizeof(float) * wire_share(kind, load);
  const double computing = load.elements * codecs[static_cast<std::size_t>(kind)];
  return codec_row(kind).rounds * link.latency_s + bytes * link.byte_s + computing;
}

double contention(double wall_s, double cpu_s) noexcept {
  return cpu_s > 0 ? std::max(1.0, wall_s / cpu_s) : 1.0;
}

CodecSpeed measure_codec(CodecKind kind, std::size_t elements, int repeats) {
  const Floats values = sample_values(elements);
  const CodecRow& row = codec_row(kind);
  const CompressionSpec& spec = row.defaults;
  if (row.payload == Payload::kList) return measure_selection(values, repeats);
  if (row.payload == Payload::kFactors) return measure_projection(spec.rank, values, repeats);
  const auto codec = make_codec(spec);
  if (codec == nullptr) return {};
  return measure_rounding(*codec, values, spec.error_feedback, repeats);
}

double measure_memcpy(std::size_t elements, int repeats) {
  const Floats from = sample_values(elements);
  Floats to(elements);
  return best_of(repeats, elements,
                 [&] { std::memcpy(to.data(), from.data(), elements * sizeof(float)); });
}

CodecCosts measure_codecs(std::span<const CodecKind> kinds) {
  CodecCosts costs{};
  const TimePoint begin = now();
  const double cpu_before = thread_seconds();
  const double pass = measure_memcpy();
  for (const CodecKind kind : kinds) {
    if (kind == kDense) continue;
    const CodecSpeed speed = measure_codec(kind);
    costs[static_cast<std::size_t>(kind)] =
        speed.encode_s + 2 * speed.decode_s + passes(kind) * pass;
  }
  const double wall_s = 1e-9 * static_cast<double>(to_ns(now() - begin));
  const double factor = contention(wall_s, thread_seconds() - cpu_before);
  for (double& cost : costs) cost *= factor;
  return costs;
}

}  // namespace ronde
