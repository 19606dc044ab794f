#include "ops/execution/auto_tuner.h"

#include <fmt/format.h>

#include <utility>

namespace ronde {
namespace {

/// An automatic choice with what the user said of residuals.
Result<std::string> with_residual(const std::string& chosen, const CompressionSpec& asked) {
  RONDE_ASSIGN_OR_RETURN(CompressionSpec spec, parse_compression(chosen));
  if (spec.error_feedback) spec.residual = asked.residual;
  return to_string(spec);
}

}  // namespace

Result<std::string> AutoTuner::choose(const Bundle& bundle, std::size_t bytes,
                                      const AbortToken& abort) {
  timing_ = bundle.compression.starts_with(codec_name(CodecKind::kAuto));
  if (!timing_) return bundle.compression;
  timing_ = false;  // until there is a choice
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse_compression(bundle.compression));
  const bool dense = options_.deterministic || bundle.device.kind != DeviceKind::kCpu;
  const Accuracy accuracy = dense ? Accuracy::kLossless : spec.accuracy;
  RONDE_ASSIGN_OR_RETURN(AutoChoice choice, auto_.choose(bundle, accuracy, probe(abort)));
  if (choice.changed) report(choice, bytes);
  timing_ = true;
  untimed_ns_ = 0;
  begin_ = now();
  if (choice.compression.empty()) return std::move(choice.compression);
  return with_residual(choice.compression, spec);
}

Status AutoTuner::observe(const AbortToken& abort) {
  if (!std::exchange(timing_, false)) return {};
  const std::int64_t taken_ns = to_ns(now() - begin_) - untimed_ns_;
  return auto_.observe(1e-9 * static_cast<double>(taken_ns), probe(abort));
}

GroupProbe AutoTuner::probe(const AbortToken& abort) {
  const auto exchange =
      [this, &abort](std::span<const std::int64_t> mine) -> Result<std::vector<std::int64_t>> {
    RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(mine, abort));
    return std::vector<std::int64_t>(all.begin(), all.end());
  };
  return {.size = options_.size,
          .in_memory = host_.in_memory(),
          .dense = [this, &abort](std::size_t bytes) { return run_zeros(bytes, abort); },
          .exchange = exchange};
}

/// A dense allreduce.
Status AutoTuner::run_zeros(std::size_t bytes, const AbortToken& abort) {
  std::vector<std::byte> values(bytes);
  const Segment segment{values.data(), values.data(), bytes};
  Work work;
  work.kind = Collective::kAllreduce;
  work.segments = {&segment, 1};
  work.bytes = bytes;
  return host_.dense().run(work, kNoStream, abort);
}

void AutoTuner::report(const AutoChoice& choice, std::size_t bytes) const {
  EventSink* const events = options_.events == nullptr ? nullptr : options_.events->get();
  if (events == nullptr) return;
  events->instant(kMarksTrack,
                  fmt::format("compression auto: {:.3g} MB {}, predicted {:.3g} ms (dense {:.3g})",
                              static_cast<double>(bytes) * 1e-6,
                              choice.compression.empty() ? "dense" : choice.compression,
                              choice.predicted_s * 1e3, choice.dense_s * 1e3));
}

}  // namespace ronde
