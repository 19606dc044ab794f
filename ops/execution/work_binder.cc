#include "ops/execution/work_binder.h"

#include <utility>

#include "core/base/clock.h"
#include "ops/execution/weighting.h"

namespace ronde {
namespace {

bool is_on_device(const Bundle& bundle) { return bundle.device.kind != DeviceKind::kCpu; }

/// The name in paths and timelines; AdasumCommunicator runs it.
constexpr Algorithm kAdasumAlgorithm{Collective::kAllreduce, "adasum"};

bool is_adasum(const Work& work) {
  return traits_of(work.kind).reduces && work.reduction.op == ReduceOp::kAdasum;
}

}  // namespace

WorkBinder::WorkBinder(Options options)
    : size_(options.host.size),
      events_(options.events),
      host_(std::move(options.host_parts), options.host),
      device_({.open = std::move(options.open_device),
               .rank = options.host.rank,
               .size = options.host.size,
               .events = options.events,
               .track = std::move(options.device_track),
               .host_levels = host_.levels()},
              host_.dense()),
      adasum_(host_.dense(), host_.dense().kernels(), options.host.rank, options.host.size),
      exchange_(host_.dense(), options.host.size),
      codecs_(std::move(options.compression)),
      auto_({.size = options.host.size,
             .in_memory = host_.in_memory(),
             .deterministic = options.host.deterministic,
             .events = options.events},
            host_.dense(), exchange_) {}

Status WorkBinder::begin(const Bundle& bundle, const AbortToken& abort) {
  return is_on_device(bundle) ? device_.begin(bundle, abort) : Status();
}

Status WorkBinder::end(const Bundle& bundle, const AbortToken& abort) {
  return is_on_device(bundle) ? device_.end(bundle, abort) : Status();
}

Result<Work> WorkBinder::multiply_on_device(const Bundle& bundle, Work work) {
  products_.assign(work.segments.begin(), work.segments.end());
  for (std::size_t i = 0; i < products_.size(); ++i) {
    Segment& segment = products_[i];
    if (segment.in == nullptr) continue;
    if (segment.out == nullptr) return Status(Code::kResourceExhausted, "no memory for an output");
    const double factor = product_factor(bundle, bundle.tensors[i]);
    if (factor == 0.0) segment.in = nullptr;  // zeros, even if inputs are NaN
    RONDE_RETURN_IF_ERROR(device_.multiply(bundle.dtype, segment, factor));
    segment.in = segment.out;
  }
  work.reduction = sum_of_products(bundle, bundle.dtype);
  work.segments = products_;
  return work;
}

Result<BoundWork> WorkBinder::bind(const Bundle& bundle, const Work& work,
                                   const AbortToken& abort) {
  if (is_adasum(work)) return bind_adasum(bundle, work, abort);
  if (bundle.compression.empty()) return bind_dense(bundle, work, abort);
  RONDE_ASSIGN_OR_RETURN(AutoChoice choice, auto_.choose(bundle, work.bytes, abort));
  compression_ = std::move(choice.compression);
  if (compression_.empty()) return bind_dense(bundle, work, abort);
  RONDE_ASSIGN_OR_RETURN(const bool dense,
                         codecs_.travels_dense(bundle, compression_, exchange_, abort));
  return dense ? bind_dense(bundle, work, abort) : bind_compressed(bundle, work, abort);
}

Result<BoundWork> WorkBinder::bind_dense(const Bundle& bundle, const Work& work,
                                         const AbortToken& abort) {
  BoundWork bound{.work = work};
  last_on_device_ = is_on_device(bundle);
  if (last_on_device_) {
    RONDE_RETURN_IF_ERROR(device_.choose(bundle, work, abort));
    serve_on_device(bound);
    bound.traced = {.bytes = work.bytes, .path = device_.path()};
    return bound;
  }
  RONDE_ASSIGN_OR_RETURN(last_route_, host_.dense().route(work));
  bound.communicator = &host_.dense();
  bound.route = last_route_;
  bound.traced = {.bytes = work.bytes,
                  .algorithm = AlgorithmCommunicator::algorithm_name(last_route_),
                  .path = host_.dense().traits().name};
  return bound;
}

/// Tensors of a device are copied to the host and back.
Result<BoundWork> WorkBinder::bind_adasum(const Bundle& bundle, const Work& work,
                                          const AbortToken& abort) {
  BoundWork bound{.work = work, .communicator = &adasum_};
  if (is_on_device(bundle)) {
    bound.on_device = work.segments;
    RONDE_ASSIGN_OR_RETURN(bound.work.segments, device_.bring_down(bound.on_device, abort));
  }
  last_on_device_ = false;
  last_route_ = {Path::kAlgorithm, &kAdasumAlgorithm};
  bound.traced = {
      .bytes = work.bytes, .algorithm = kAdasumAlgorithm.name, .path = host_.dense().traits().name};
  return bound;
}

Result<BoundWork> WorkBinder::bind_compressed(const Bundle& bundle, const Work& work,
                                              const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(CompressedWork prepared, codecs_.prepare(bundle, compression_));
  // A group of one compresses nothing on its device, but counts the step.
  if (is_on_device(bundle) && size_ == 1) return bind_dense(bundle, work, abort);
  BoundWork bound{.work = work,
                  .compression = std::make_unique<CompressedWork>(std::move(prepared))};
  RONDE_RETURN_IF_ERROR(serve_compressed(bundle, bound, abort));
  bound.traced = traced(bound);
  return bound;
}

/// Without kernels of the device, the CPU's codecs serve a copy in host memory.
Status WorkBinder::serve_compressed(const Bundle& bundle, BoundWork& bound,
                                    const AbortToken& abort) {
  if (!is_on_device(bundle)) return serve_on_host(bound, abort);
  RONDE_ASSIGN_OR_RETURN(const Path path,
                         device_.choose_compressed(bundle, bound.work, *bound.compression, abort));
  if (path != Path::kHostCodecs) {
    last_on_device_ = true;
    serve_on_device(bound);
    return {};
  }
  bound.on_device = bound.work.segments;
  RONDE_ASSIGN_OR_RETURN(bound.work.segments, device_.bring_down(bound.on_device, abort));
  return serve_on_host(bound, abort);
}

/// Residuals are in host memory meanwhile.
Status WorkBinder::serve_on_host(BoundWork& bound, const AbortToken& abort) {
  RONDE_RETURN_IF_ERROR(bound.compression->bring_to_host(abort));
  last_on_device_ = false;
  RONDE_ASSIGN_OR_RETURN(const Path path, host_.compressed_path(bound.work));
  last_route_ = {path, nullptr};
  bound.communicator = &host_.compressed();
  if (host_.codec() != nullptr) bound.binding.emplace(*host_.codec(), *bound.compression);
  return {};
}

void WorkBinder::serve_on_device(BoundWork& bound) {
  bound.communicator = &device_;
  bound.stream = device_.stream();
  if (bound.compression != nullptr) bound.binding.emplace(device_, *bound.compression);
}

TracedWork WorkBinder::traced(const BoundWork& bound) const {
  TracedWork traced{.bytes = bound.work.bytes,
                    .algorithm = compression_,
                    .path = last_on_device_ ? std::string_view(device_.path())
                                            : std::string_view(host_.dense().traits().name)};
  if (bound.compression->scheme().codec != nullptr) {
    traced.ratio = bound.compression->ratio(bound.work);
  }
  return traced;
}

Status WorkBinder::run(const BoundWork& bound, const AbortToken& abort) {
  return bound.route ? host_.dense().run(bound.work, *bound.route, abort)
                     : bound.communicator->run(bound.work, bound.stream, abort);
}

/// Collectives of other libraries promise no bits.
WatchedPath WorkBinder::watched_path(const BoundWork& bound) const {
  const bool whole = bound.work.kind == Collective::kAllreduce && bound.route;
  const bool native = whole && bound.route->path == Path::kNative;
  const bool shows = native && host_.dense().traits().watches;
  return {.shows_values = shows,
          .same_bits = whole && (!native || shows || host_.levels()),
          .lossy = bound.compression != nullptr};
}

Status WorkBinder::finish(const Bundle& bundle, const BoundWork& bound, const AbortToken& abort) {
  if (is_adasum(bound.work)) return device_.bring_up(bound.on_device);
  if (bound.compression != nullptr) RONDE_RETURN_IF_ERROR(keep_residuals(bundle, bound, abort));
  return bundle.compression.empty() ? Status() : auto_.observe(abort);
}

/// A device keeps its residuals itself: only their norms are noted here.
Status WorkBinder::keep_residuals(const Bundle& bundle, const BoundWork& bound,
                                  const AbortToken& abort) {
  CompressedWork& compression = *bound.compression;
  EventSink* const events = events_ == nullptr ? nullptr : events_->get();
  if (bound.communicator == &device_) {
    if (!codecs_.wants_losses(compression)) return {};
    Work results = bound.work;
    RONDE_ASSIGN_OR_RETURN(results.segments, device_.bring_losses(bound.work, compression, abort));
    codecs_.note_losses(bundle, results, compression, events);
    return {};
  }
  {
    const Stopwatch noting(auto_.untimed_ns());
    codecs_.note_losses(bundle, bound.work, compression, events);
  }
  compression.commit(bound.work);
  return device_.bring_up(bound.on_device);
}

std::string WorkBinder::last_path() const {
  if (last_on_device_) return device_.path();
  return path_name(last_route_.path,
                   {.communicator = host_.dense().traits().name,
                    .algorithm = AlgorithmCommunicator::algorithm_name(last_route_),
                    .levels = host_.levels()});
}

}  // namespace ronde
