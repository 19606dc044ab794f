#include "ops/execution/executor.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/protocol/request.h"
#include "ops/communicator/bundle_tracer.h"
#include "ops/compression/registry.h"
#include "ops/execution/extents.h"
#include "ops/execution/nonfinite_check.h"
#include "ops/execution/output_planner.h"
#include "ops/execution/weighting.h"
#include "ops/execution/work_binder.h"
#include "ops/selection/selector.h"
#include "ops/sparse/allreduce.h"

namespace ronde {
namespace {

WorkBinder::Options binder_options(ExecutorOptions& options) {
  return {.host_parts = std::move(options.host),
          .host = options,
          .open_device = std::move(options.open_device),
          .device_track = PhaseTracks(options.set_name).device,
          .compression = {.residuals = std::move(options.residuals),
                          .loss_steps = options.loss_steps,
                          .set = options.set,
                          .rank = options.rank},
          .events = options.events};
}

Status check_codec(const Bundle& bundle) {
  if (traits_of(bundle.kind).codecs == Codecs::kAny) return {};
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse_compression(bundle.compression));
  return check_codec(bundle.kind, spec);
}

/// Weights are applied before the ranks' rows are added up, other factors meanwhile.
SparseWork sparse_work(const Bundle& bundle, int ranks) {
  const BundleTensor& tensor = bundle.tensors.front();
  SparseWork work{
      .tensor = tensor,
      .width = static_cast<std::size_t>(row_elements(tensor.shape)),
      .own = {bundle.dtype, ReduceOp::kSum, {}},
      .shared = reduction_for({bundle.dtype, bundle.op, bundle.prescale, bundle.postscale}, ranks)};
  work.own.rounds_once = is_rounded_once(work.shared);
  if (bundle.weighted) {
    work.own.scaling.pre = product_factor(bundle, tensor);
    work.shared = sum_of_products(bundle, bundle.dtype);
  }
  return work;
}

/// Runs each work of a bundle by the communicator that serves it.
class BundleExecutor final : public Executor {
 public:
  explicit BundleExecutor(ExecutorOptions& options)
      : size_(options.size),
        weighting_(options.kernels),
        tracer_(options.events, options.set_name),
        binder_(binder_options(options)),
        planner_(binder_.exchange(), options.rank, options.size),
        sparse_(binder_.host(), binder_.exchange(), options.kernels,
                {.rank = options.rank, .size = options.size, .path = options.sparse}),
        on_work_(std::move(options.on_work)),
        on_result_(std::move(options.on_result)) {
    if (options.finds_nonfinite) {
      nonfinite_.emplace(options.kernels, binder_.exchange(), options.rank, options.size);
    }
    if (options.check_mean) {
      mean_.emplace(std::move(*options.check_mean), options.kernels, binder_.exchange(),
                    options.rank, options.size);
    }
    if (options.check_sums) {
      sums_.emplace(std::move(*options.check_sums), options.kernels, binder_.exchange(),
                    options.size);
    }
  }

  Status execute(const Bundle& bundle, const AbortToken& abort) override;
  bool polls() const noexcept override { return binder_.polls(); }
  std::string last_path() const override {
    return sparse_path_.empty() ? binder_.last_path() : sparse_path_;
  }
  CompressionFacts last_compression() const override { return facts_; }
  std::vector<std::string> explain_compression() const override {
    return binder_.explain_compression();
  }

 private:
  Status check(const Bundle& bundle) const;
  Status deliver(const Bundle& bundle, const AbortToken& abort);
  Status run(const Bundle& bundle, const Work& work, const AbortToken& abort);
  Status move(const Bundle& bundle, BoundWork& bound, const AbortToken& abort);
  Status run_sparse(const Bundle& bundle, const AbortToken& abort);
  Status run_weighted(const Bundle& bundle, const Work& work, const AbortToken& abort);
  [[nodiscard]] bool finds_nonfinite(const Bundle& bundle) const {
    return nonfinite_ && NonfiniteCheck::applies(bundle);
  }
  [[nodiscard]] bool checks_mean(const Bundle& bundle) const {
    return mean_ && MeanCheck::applies(bundle);
  }
  bool draws_sum(const Bundle& bundle, const Work& work) {
    return sums_ && SumCheck::applies(bundle) && sums_->begin(work);
  }

  const int size_;
  Weighting weighting_;
  BundleTracer tracer_;
  WorkBinder binder_;
  OutputPlanner planner_;
  SparseAllreduce sparse_;
  std::string sparse_path_;  // of what ran last, if it was sparse
  std::optional<NonfiniteCheck> nonfinite_;
  std::optional<MeanCheck> mean_;
  std::optional<SumCheck> sums_;
  const std::function<void(const Bundle&, const Work&)> on_work_;
  const std::function<void(const Bundle&, const Work&, bool ran)> on_result_;
  CompressionFacts facts_;  // of what ran last
};

Status BundleExecutor::execute(const Bundle& bundle, const AbortToken& abort) {
  if (abort.aborted()) return abort.status();
  RONDE_RETURN_IF_ERROR(check(bundle));
  sparse_path_.clear();
  if (!bundle.result.empty()) return deliver(bundle, abort);
  if (traits_of(bundle.kind).has_indices()) return run_sparse(bundle, abort);
  RONDE_RETURN_IF_ERROR(binder_.begin(bundle, abort));
  RONDE_RETURN_IF_ERROR(planner_.plan(bundle, abort));
  for (std::size_t i = 0; i < planner_.works(); ++i) {
    const Work work = planner_.work(bundle, i);
    const Status done =
        bundle.weighted ? run_weighted(bundle, work, abort) : run(bundle, work, abort);
    if (!done.ok()) return planner_.works() > 1 ? done.in_tensor(i) : done;
  }
  RONDE_RETURN_IF_ERROR(binder_.end(bundle, abort));
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
  if (!is_defined(bundle.op, bundle.kind)) {
    return {Code::kInvalidArgument, fmt::format("{} is not defined for {}; allowed is allreduce",
                                                to_string(bundle.op), to_string(bundle.kind))};
  }
  if (!bundle.compression.empty()) {
    RONDE_RETURN_IF_ERROR(check_compressible(bundle.kind, bundle.dtype, bundle.op));
    RONDE_RETURN_IF_ERROR(check_codec(bundle));
  }
  if (traits_of(bundle.kind).rooted() && (bundle.root < 0 || bundle.root >= size_)) {
    return {Code::kInvalidArgument,
            fmt::format("root {} is not a rank of a group of {}", bundle.root, size_)};
  }
  return {};
}

/// The result came with the agreement.
Status BundleExecutor::deliver(const Bundle& bundle, const AbortToken& abort) {
  RONDE_RETURN_IF_ERROR(planner_.plan(bundle, abort));
  const Work work = planner_.work(bundle, 0);
  if (work.segments.size() != 1 || work.bytes != bundle.result.size()) {
    return {Code::kInternal, "a result came with the agreement and does not fit its tensor"};
  }
  facts_ = {};
  const bool looks = finds_nonfinite(bundle);
  if (looks) nonfinite_->look_at(work, bundle.result);
  const bool compares = checks_mean(bundle);
  if (compares) mean_->begin(bundle, work);
  const bool drawn = draws_sum(bundle, work);
  if (on_work_) on_work_(bundle, work);
  void* const out = work.segments[0].out;
  const auto copy = [&](PhaseObserver*) {
    if (out != nullptr) std::memcpy(out, bundle.result.data(), bundle.result.size());
    return Status();
  };
  RONDE_RETURN_IF_ERROR(tracer_.trace(
      bundle, {.bytes = work.bytes, .algorithm = "inline", .path = "control"}, facts_, copy));
  if (on_result_) on_result_(bundle, work, true);
  if (drawn) RONDE_RETURN_IF_ERROR(sums_->end(bundle, work, abort));
  if (compares) RONDE_RETURN_IF_ERROR(mean_->end(bundle, work, false, abort));
  if (looks) RONDE_RETURN_IF_ERROR(nonfinite_->end(bundle, abort));
  return planner_.allocation();
}

Status BundleExecutor::run(const Bundle& bundle, const Work& work, const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(BoundWork bound, binder_.bind(bundle, work, abort));
  facts_ = {};
  const bool looks = finds_nonfinite(bundle);
  const bool compares = checks_mean(bundle);
  if (compares) mean_->begin(bundle, work);
  const bool drawn = draws_sum(bundle, work);
  if (looks) bound.work = nonfinite_->begin(bound.work, binder_.watched_path(bound));
  if (on_work_) on_work_(bundle, work);
  const Status moved = move(bundle, bound, abort);
  if (on_result_) on_result_(bundle, work, moved.ok());
  if (drawn && !moved.ok()) sums_->drop(work);
  RONDE_RETURN_IF_ERROR(moved);
  if (drawn) RONDE_RETURN_IF_ERROR(sums_->end(bundle, work, abort));
  if (compares) {
    const bool lossy = bound.compression != nullptr;
    RONDE_RETURN_IF_ERROR(mean_->end(bundle, work, lossy, abort));
  }
  return looks ? nonfinite_->end(bundle, abort) : Status();
}

Status BundleExecutor::move(const Bundle& bundle, BoundWork& bound, const AbortToken& abort) {
  const auto carry = [&](PhaseObserver* phases) {
    bound.work.phases = phases;
    RONDE_RETURN_IF_ERROR(binder_.run(bound, abort));
    facts_ = bound.facts();
    return Status();
  };
  RONDE_RETURN_IF_ERROR(tracer_.trace(bundle, bound.traced, facts_, carry));
  return binder_.finish(bundle, bound, abort);
}

Status BundleExecutor::run_sparse(const Bundle& bundle, const AbortToken& abort) {
  if (bundle.device.kind != DeviceKind::kCpu) {
    return {Code::kUnsupported, "sparse rows are added up in host memory; copy them there"};
  }
  const SparseWork work = sparse_work(bundle, size_);
  RONDE_ASSIGN_OR_RETURN(const SparsePath path, sparse_.plan(work, abort));
  const std::string_view host = binder_.host().traits().name;
  sparse_path_ = fmt::format("{} over {}", to_string(path), host);
  facts_ = {};
  const TracedWork traced{.bytes = input_bytes(bundle), .algorithm = to_string(path), .path = host};
  return tracer_.trace(bundle, traced, facts_,
                       [&](PhaseObserver* phases) { return sparse_.run(work, phases, abort); });
}

Status BundleExecutor::run_weighted(const Bundle& bundle, const Work& work,
                                    const AbortToken& abort) {
  if (bundle.device.kind != DeviceKind::kCpu) {
    RONDE_ASSIGN_OR_RETURN(const Work products, binder_.multiply_on_device(bundle, work));
    return run(bundle, products, abort);
  }
  RONDE_RETURN_IF_ERROR(run(bundle, weighting_.begin(bundle, work), abort));
  weighting_.end(bundle, work);
  return {};
}

}  // namespace

Result<std::unique_ptr<Executor>> create_executor(ExecutorOptions options) {
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
  return std::unique_ptr<Executor>(std::make_unique<BundleExecutor>(options));
}

}  // namespace ronde
