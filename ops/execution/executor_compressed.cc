#include <fmt/format.h>

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/stopwatch.h"
#include "ops/execution/plane_executor.h"

namespace ronde {
namespace {

/// An automatic choice with what the user said of residuals.
Result<std::string> with_residual(const std::string& chosen, const CompressionSpec& asked) {
  RONDE_ASSIGN_OR_RETURN(CompressionSpec spec, parse_compression(chosen));
  if (spec.error_feedback) spec.residual = asked.residual;
  return to_string(spec);
}

}  // namespace

/// Whether a bundle still travels dense. A step is counted by each rank, and ranks may differ in
/// how many they saw (one had joined, or is new), so they ask one another; the most counts. Once
/// they know that it is over, nobody asks again.
Result<bool> PlaneExecutor::warms_up(const Bundle& bundle, const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const WarmUp mine, compressor_.warm_up(bundle));
  if (mine.dense_steps == 0) return false;
  words_.assign({mine.passed});
  RONDE_RETURN_IF_ERROR(exchange_words(abort));
  const std::int64_t passed = *std::max_element(all_words_.begin(), all_words_.end());
  if (passed < 0 || passed >= mine.dense_steps) {
    compressor_.end_warm_up(bundle);
    return false;
  }
  RONDE_RETURN_IF_ERROR(compressor_.pass_step(bundle));
  return true;
}

Status PlaneExecutor::execute_compressed(const Bundle& bundle, std::size_t bytes,
                                         const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const bool dense, warms_up(bundle, abort));
  if (dense) return run(bundle, work_of(bundle), bytes, abort);
  RONDE_ASSIGN_OR_RETURN(auto compression, compressor_.prepare(bundle));
  Work work = work_of(bundle);
  if (size_ == 1 && bundle.device.kind != DeviceKind::kCpu) {
    return run(bundle, work, bytes, abort);  // compresses nothing, but its steps count
  }
  work.compression = &compression;
  if (bundle.device.kind == DeviceKind::kCpu) return compress(bundle, work, bytes, abort);
  RONDE_ASSIGN_OR_RETURN(const bool there, device_.choose_compressed(bundle, work, bytes, abort));
  return there ? compress_on_device(bundle, work, bytes, abort)
               : compress_staged(bundle, work, bytes, abort);
}

Status PlaneExecutor::compress_on_device(const Bundle& bundle, Work work, std::size_t bytes,
                                         const AbortToken& abort) {
  RONDE_RETURN_IF_ERROR(run(bundle, work, bytes, abort));
  if (!compressor_.wants_losses(*work.compression)) return {};
  RONDE_ASSIGN_OR_RETURN(work.segments, device_.bring_losses(work, abort));
  compressor_.note_losses(bundle, work, *work.compression,
                          events_ == nullptr ? nullptr : events_->get());
  return {};
}

/// Where the device has no kernels for it, the CPU's codecs work in pinned memory, with residuals
/// in host memory.
Status PlaneExecutor::compress_staged(const Bundle& bundle, Work work, std::size_t bytes,
                                      const AbortToken& abort) {
  Bundle on_host = bundle;
  on_host.device = {};
  RONDE_ASSIGN_OR_RETURN(work.segments, device_.bring_down(segments_, abort));
  RONDE_RETURN_IF_ERROR(compress(on_host, work, bytes, abort));
  return device_.bring_up(segments_);
}

Status PlaneExecutor::compress(const Bundle& bundle, const Work& work, std::size_t bytes,
                               const AbortToken& abort) {
  RONDE_RETURN_IF_ERROR(work.compression->bring_to_host(abort));
  RONDE_RETURN_IF_ERROR(run(bundle, work, bytes, abort));
  {
    const Stopwatch noting(&noting_ns_);
    compressor_.note_losses(bundle, work, *work.compression,
                            events_ == nullptr ? nullptr : events_->get());
  }
  work.compression->commit(work);
  return {};
}

Status PlaneExecutor::execute_auto(const Bundle& bundle, std::size_t bytes,
                                   const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse_compression(bundle.compression));
  const bool dense = deterministic_ || bundle.device.kind != DeviceKind::kCpu;
  const Accuracy accuracy = dense ? Accuracy::kLossless : spec.accuracy;
  const GroupDoor group = door(abort);
  RONDE_ASSIGN_OR_RETURN(const AutoChoice choice, auto_.choose(bundle, accuracy, group));
  if (choice.changed) explain(choice, bytes);
  noting_ns_ = 0;
  const TimePoint begin = now();
  if (choice.compression.empty()) {
    RONDE_RETURN_IF_ERROR(run(bundle, work_of(bundle), bytes, abort));
  } else {
    Bundle compressed = bundle;
    RONDE_ASSIGN_OR_RETURN(compressed.compression, with_residual(choice.compression, spec));
    RONDE_RETURN_IF_ERROR(execute_compressed(compressed, bytes, abort));
  }
  const std::int64_t taken_ns = to_ns(now() - begin) - noting_ns_;
  return auto_.observe(1e-9 * static_cast<double>(taken_ns), group);
}

GroupDoor PlaneExecutor::door(const AbortToken& abort) {
  const auto exchange =
      [this, &abort](std::span<const std::int64_t> mine) -> Result<std::vector<std::int64_t>> {
    words_.assign(mine.begin(), mine.end());
    RONDE_RETURN_IF_ERROR(exchange_words(abort));
    return all_words_;
  };
  return {.size = size_,
          .in_memory = runner_.in_memory(),
          .dense = [this, &abort](std::size_t bytes) { return run_probe(bytes, abort); },
          .exchange = exchange};
}

/// A dense allreduce of zeros.
Status PlaneExecutor::run_probe(std::size_t bytes, const AbortToken& abort) {
  std::vector<std::byte> values(bytes);
  const Segment segment{values.data(), values.data(), bytes};
  Work work;
  work.kind = Collective::kAllreduce;
  work.segments = {&segment, 1};
  const WorkDesc desc{.kind = work.kind,
                      .dtype = DType::kFloat32,
                      .op = ReduceOp::kSum,
                      .device = {},
                      .bytes = bytes};
  RONDE_ASSIGN_OR_RETURN(const Route route, runner_.route(desc));
  return runner_.run(work, route, abort);
}

void PlaneExecutor::explain(const AutoChoice& choice, std::size_t bytes) const {
  EventSink* const events = events_ == nullptr ? nullptr : events_->get();
  if (events == nullptr) return;
  events->instant(kMarksLane,
                  fmt::format("compression auto: {:.3g} MB {}, predicted {:.3g} ms (dense {:.3g})",
                              static_cast<double>(bytes) * 1e-6,
                              choice.compression.empty() ? "dense" : choice.compression,
                              choice.predicted_s * 1e3, choice.dense_s * 1e3));
}

}  // namespace ronde
