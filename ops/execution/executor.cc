#include "ops/execution/executor.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/stopwatch.h"
#include "core/protocol/several_devices.h"
#include "ops/device/device_runner.h"
#include "ops/execution/auto_compression.h"
#include "ops/execution/bundle_tracer.h"
#include "ops/execution/compression_binder.h"
#include "ops/execution/output_planner.h"
#include "ops/execution/word_exchange.h"
#include "ops/selection/selector.h"

namespace ronde {
namespace {

bool is_on_device(const Bundle& bundle) { return bundle.device.kind != DeviceKind::kCpu; }

bool is_auto(const Bundle& bundle) {
  return bundle.compression.starts_with(codec_name(CodecKind::kAuto));
}

/// An automatic choice with what the user said of residuals.
Result<std::string> with_residual(const std::string& chosen, const CompressionSpec& asked) {
  RONDE_ASSIGN_OR_RETURN(CompressionSpec spec, parse_compression(chosen));
  if (spec.error_feedback) spec.residual = asked.residual;
  return to_string(spec);
}

HostOptions host_options(ExecutorOptions& options) {
  return {.kernels = std::move(options.kernels),
          .tuned = std::move(options.tuned),
          .algorithm = options.algorithm,
          .deterministic = options.deterministic,
          .rank = options.rank,
          .size = options.size};
}

/// Runs the works of bundles over the communicators of their memory.
class BundleExecutor final : public CollectiveExecutor {
 public:
  explicit BundleExecutor(ExecutorOptions& options)
      : deterministic_(options.deterministic),
        size_(options.size),
        host_(std::move(options.host), host_options(options)),
        device_({.open = std::move(options.open_device),
                 .rank = options.rank,
                 .size = options.size,
                 .events = options.events,
                 .track = PhaseTracks(options.set).device,
                 .host_levels = host_.levels()},
                host_.dense()),
        words_(host_.dense(), options.size),
        planner_(words_, options.rank, options.size),
        binder_({.residuals = std::move(options.residuals),
                 .loss_steps = options.loss_steps,
                 .set = options.set,
                 .rank = options.rank}),
        tracer_(options.events, options.set) {}

  Status execute(const Bundle& bundle, const AbortToken& abort) override;
  std::string last_path() const override;
  bool polls() const noexcept override { return host_.dense().traits().polls; }
  CompressionFacts last_compression() const override { return last_facts_; }
  std::vector<std::string> explain_compression() const override { return auto_.explain(); }

 private:
  Status check(const Bundle& bundle) const;
  Status run(const Bundle& bundle, const Work& work, const AbortToken& abort);
  Status run_dense(const Bundle& bundle, const Work& work, const AbortToken& abort);
  Status run_compressed(const Bundle& bundle, const Work& work, const AbortToken& abort);
  Status compress_on_host(const Bundle& bundle, const Work& work, CompressedWork& compression,
                          const AbortToken& abort);
  Status compress_on_device(const Bundle& bundle, Work work, CompressedWork& compression,
                            const AbortToken& abort);
  Status compress_staged(const Bundle& bundle, Work work, CompressedWork& compression,
                         const AbortToken& abort);
  [[nodiscard]] TracedWork traced(const Bundle& bundle, const Work& work,
                                  const CompressedWork& compression) const;

  Status run_auto(const Bundle& bundle, const Work& work, const AbortToken& abort);
  GroupProbe probe(const AbortToken& abort);
  Status time_dense(std::size_t bytes, const AbortToken& abort);
  void report_choice(const AutoChoice& choice, std::size_t bytes) const;

  const bool deterministic_;
  const int size_;
  HostCommunicators host_;
  DeviceRunner device_;
  WordExchange words_;
  OutputPlanner planner_;
  CompressionBinder binder_;
  AutoCompression auto_;
  BundleTracer tracer_;
  Route last_route_;  // of what ran last on the host
  bool last_on_device_ = false;
  CompressionFacts last_facts_;
  std::int64_t noting_ns_ = 0;  // what measuring losses took, since set to 0
};

Status BundleExecutor::execute(const Bundle& bundle, const AbortToken& abort) {
  if (abort.aborted()) return abort.status();
  RONDE_RETURN_IF_ERROR(check(bundle));
  if (is_on_device(bundle)) RONDE_RETURN_IF_ERROR(device_.begin(bundle, abort));
  RONDE_RETURN_IF_ERROR(planner_.plan(bundle, abort));
  for (std::size_t i = 0; i < planner_.works(); ++i) {
    RONDE_RETURN_IF_ERROR(run(bundle, planner_.work(bundle, i), abort));
  }
  if (is_on_device(bundle)) RONDE_RETURN_IF_ERROR(device_.end(bundle, abort));
  return planner_.allocation();
}

Status BundleExecutor::check(const Bundle& bundle) const {
  if (bundle.device.kind == kSeveralDevices) {
    return {Code::kUnsupported,
            "the tensors are on several devices; a process set works on one device of each rank"};
  }
  if (traits_of(bundle.kind).reduces && !is_defined(bundle.op, bundle.dtype)) {
    return {Code::kInvalidArgument,
            fmt::format("{} is not defined for {}", to_string(bundle.op), to_string(bundle.dtype))};
  }
  if (!bundle.compression.empty()) {
    RONDE_RETURN_IF_ERROR(check_compressible(bundle.kind, bundle.dtype, bundle.op));
  }
  if (traits_of(bundle.kind).rooted() && (bundle.root < 0 || bundle.root >= size_)) {
    return {Code::kInvalidArgument,
            fmt::format("root {} is not a rank of a group of {}", bundle.root, size_)};
  }
  return {};
}

Status BundleExecutor::run(const Bundle& bundle, const Work& work, const AbortToken& abort) {
  if (bundle.compression.empty()) return run_dense(bundle, work, abort);
  if (is_auto(bundle)) return run_auto(bundle, work, abort);
  return run_compressed(bundle, work, abort);
}

Status BundleExecutor::run_dense(const Bundle& bundle, const Work& work, const AbortToken& abort) {
  last_facts_ = {};
  last_on_device_ = is_on_device(bundle);
  if (last_on_device_) {
    RONDE_RETURN_IF_ERROR(device_.choose(bundle, work, abort));
    return tracer_.trace(bundle, {.bytes = work.bytes, .path = device_.path()}, last_facts_,
                         [&](PhaseObserver*) { return device_.run(work, nullptr, abort); });
  }
  AlgorithmCommunicator& host = host_.dense();
  RONDE_ASSIGN_OR_RETURN(last_route_, host.route(work));
  const TracedWork traced{.bytes = work.bytes,
                          .algorithm = AlgorithmCommunicator::algorithm_name(last_route_),
                          .path = host.traits().name};
  return tracer_.trace(bundle, traced, last_facts_, [&](PhaseObserver* phases) {
    if (phases == nullptr) return host.run(work, last_route_, abort);
    Work reported = work;
    reported.phases = phases;
    return host.run(reported, last_route_, abort);
  });
}

Status BundleExecutor::run_compressed(const Bundle& bundle, const Work& work,
                                      const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const bool dense, binder_.travels_dense(bundle, words_, abort));
  if (dense) return run_dense(bundle, work, abort);
  RONDE_ASSIGN_OR_RETURN(CompressedWork compression, binder_.prepare(bundle));
  if (!is_on_device(bundle)) return compress_on_host(bundle, work, compression, abort);
  if (size_ == 1) return run_dense(bundle, work, abort);  // compresses nothing, but its steps count
  RONDE_ASSIGN_OR_RETURN(const Path path,
                         device_.choose_compressed(bundle, work, compression, abort));
  return path == Path::kHostCodecs ? compress_staged(bundle, work, compression, abort)
                                   : compress_on_device(bundle, work, compression, abort);
}

TracedWork BundleExecutor::traced(const Bundle& bundle, const Work& work,
                                  const CompressedWork& compression) const {
  TracedWork traced{.bytes = work.bytes,
                    .algorithm = bundle.compression,
                    .path = last_on_device_ ? std::string_view(device_.path())
                                            : std::string_view(host_.dense().traits().name)};
  if (compression.scheme().codec != nullptr) traced.ratio = compression.ratio(work);
  return traced;
}

/// Residuals are in host memory meanwhile.
Status BundleExecutor::compress_on_host(const Bundle& bundle, const Work& work,
                                        CompressedWork& compression, const AbortToken& abort) {
  RONDE_RETURN_IF_ERROR(compression.bring_to_host(abort));
  last_on_device_ = false;
  RONDE_ASSIGN_OR_RETURN(const Path path, host_.compressed_path(work));
  last_route_ = {path, nullptr};
  last_facts_ = {};
  const Status moved = tracer_.trace(
      bundle, traced(bundle, work, compression), last_facts_, [&](PhaseObserver* phases) {
        Work reported = work;
        reported.phases = phases;
        RONDE_RETURN_IF_ERROR(host_.run_compressed(reported, compression, abort));
        last_facts_ = compression.facts();
        return Status();
      });
  if (!moved.ok()) return moved;
  {
    const Stopwatch noting(&noting_ns_);
    binder_.note_losses(bundle, work, compression, tracer_.sink());
  }
  compression.commit(work);
  return {};
}

Status BundleExecutor::compress_on_device(const Bundle& bundle, Work work,
                                          CompressedWork& compression, const AbortToken& abort) {
  last_on_device_ = true;
  last_facts_ = {};
  const Status moved =
      tracer_.trace(bundle, traced(bundle, work, compression), last_facts_, [&](PhaseObserver*) {
        RONDE_RETURN_IF_ERROR(device_.run(work, &compression, abort));
        last_facts_ = compression.facts();
        return Status();
      });
  if (!moved.ok()) return moved;
  if (!binder_.wants_losses(compression)) return {};
  RONDE_ASSIGN_OR_RETURN(work.segments, device_.bring_losses(work, compression, abort));
  binder_.note_losses(bundle, work, compression, tracer_.sink());
  return {};
}

/// Where the device has no kernels for it, the CPU's codecs work in pinned memory, with residuals
/// in host memory.
Status BundleExecutor::compress_staged(const Bundle& bundle, Work work, CompressedWork& compression,
                                       const AbortToken& abort) {
  Bundle on_host = bundle;
  on_host.device = {};
  const std::span<const Segment> there = work.segments;
  RONDE_ASSIGN_OR_RETURN(work.segments, device_.bring_down(there, abort));
  RONDE_RETURN_IF_ERROR(compress_on_host(on_host, work, compression, abort));
  return device_.bring_up(there);
}

Status BundleExecutor::run_auto(const Bundle& bundle, const Work& work, const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse_compression(bundle.compression));
  const bool dense = deterministic_ || is_on_device(bundle);
  const Accuracy accuracy = dense ? Accuracy::kLossless : spec.accuracy;
  const GroupProbe group = probe(abort);
  RONDE_ASSIGN_OR_RETURN(const AutoChoice choice, auto_.choose(bundle, accuracy, group));
  if (choice.changed) report_choice(choice, work.bytes);
  noting_ns_ = 0;
  const TimePoint begin = now();
  if (choice.compression.empty()) {
    RONDE_RETURN_IF_ERROR(run_dense(bundle, work, abort));
  } else {
    Bundle compressed = bundle;
    RONDE_ASSIGN_OR_RETURN(compressed.compression, with_residual(choice.compression, spec));
    RONDE_RETURN_IF_ERROR(run_compressed(compressed, work, abort));
  }
  const std::int64_t taken_ns = to_ns(now() - begin) - noting_ns_;
  return auto_.observe(1e-9 * static_cast<double>(taken_ns), group);
}

GroupProbe BundleExecutor::probe(const AbortToken& abort) {
  const auto exchange =
      [this, &abort](std::span<const std::int64_t> mine) -> Result<std::vector<std::int64_t>> {
    RONDE_ASSIGN_OR_RETURN(const auto all, words_.allgather(mine, abort));
    return std::vector<std::int64_t>(all.begin(), all.end());
  };
  return {.size = size_,
          .in_memory = host_.in_memory(),
          .dense = [this, &abort](std::size_t bytes) { return time_dense(bytes, abort); },
          .exchange = exchange};
}

/// A dense allreduce of zeros.
Status BundleExecutor::time_dense(std::size_t bytes, const AbortToken& abort) {
  std::vector<std::byte> values(bytes);
  const Segment segment{values.data(), values.data(), bytes};
  Work work;
  work.kind = Collective::kAllreduce;
  work.segments = {&segment, 1};
  work.bytes = bytes;
  return host_.dense().run(work, kNoStream, abort);
}

void BundleExecutor::report_choice(const AutoChoice& choice, std::size_t bytes) const {
  EventSink* const events = tracer_.sink();
  if (events == nullptr) return;
  events->instant(kMarksLane,
                  fmt::format("compression auto: {:.3g} MB {}, predicted {:.3g} ms (dense {:.3g})",
                              static_cast<double>(bytes) * 1e-6,
                              choice.compression.empty() ? "dense" : choice.compression,
                              choice.predicted_s * 1e3, choice.dense_s * 1e3));
}

std::string BundleExecutor::last_path() const {
  if (last_on_device_) return device_.path();
  return path_name(last_route_.path,
                   {.communicator = host_.dense().traits().name,
                    .algorithm = AlgorithmCommunicator::algorithm_name(last_route_),
                    .levels = host_.levels()});
}

}  // namespace

Result<std::unique_ptr<CollectiveExecutor>> create_executor(ExecutorOptions options) {
  RONDE_RETURN_IF_ERROR(check_algorithm(options.algorithm));
  const bool needs_transport =
      options.size > 1 && !options.algorithm.empty() && options.algorithm != kNativeAlgorithm;
  if (needs_transport && options.host.whole->transport() == nullptr) {
    return Status(
        Code::kUnsupported,
        fmt::format("algorithm '{}' needs point-to-point, which {} has not; allowed "
                    "there: {}",
                    options.algorithm, options.host.whole->traits().name, kNativeAlgorithm));
  }
  return std::unique_ptr<CollectiveExecutor>(std::make_unique<BundleExecutor>(options));
}

}  // namespace ronde
