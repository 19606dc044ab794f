#include "ops/execution/work_runner.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "ops/compression/compressed_allreduce.h"

namespace ronde {
namespace {

/// The override; a hierarchical plane is its own, and any other plane has no levels to speak of.
std::string_view override_of(const ExecutorOptions& options) {
  return options.algorithm == kHierarchicalAlgorithm ? std::string_view() : options.algorithm;
}

void move_segment(const Segment& segment, const Reduction* reduction,
                  const ReduceKernels& kernels) {
  if (segment.out == nullptr || segment.bytes == 0) return;
  if (segment.in == nullptr) {
    std::memset(segment.out, 0, segment.bytes);
  } else if (reduction != nullptr) {
    const void* in = segment.in;
    kernels.reduce(*reduction, std::array{in}, segment.out,
                   segment.bytes / size_of(reduction->dtype));
  } else if (segment.in != segment.out) {
    std::memcpy(segment.out, segment.in, segment.bytes);
  }
}

/// Work of a group of one rank: every output is the input, scaled where the kind reduces.
void run_local(const Work& work, const ReduceKernels& kernels) {
  const Scaling& scaling = work.reduction.scaling;
  const bool scaled = traits_of(work.kind).reduces && (scaling.pre != 1.0 || scaling.post != 1.0);
  for (const Segment& segment : work.segments) {
    move_segment(segment, scaled ? &work.reduction : nullptr, kernels);
  }
}

}  // namespace

WorkRunner::WorkRunner(ExecutorOptions& options)
    : plane_name_(std::move(options.plane_name)),
      algorithm_(options.deterministic ? kDeterministicAlgorithm : override_of(options)),
      tuned_(std::move(options.tuned)),
      kernels_(std::move(options.kernels)),
      plane_(std::move(options.plane)),
      transport_(plane_ == nullptr ? nullptr : plane_->transport()),
      size_(options.size),
      prefers_native_(
          algorithm_ == kNativeAlgorithm || transport_ == nullptr ||
          (options.native_first && (options.deterministic || override_of(options).empty()))),
      copies_(plane_.get()),
      buffer_(copies_, options.rank, options.size) {}

Result<Route> WorkRunner::route(const WorkDesc& desc) const {
  if (size_ == 1) return Route{Route::Way::kLocal};
  if (desc.compressed && plane_->compresses()) return Route{Route::Way::kNative};
  if (desc.compressed && transport_ != nullptr) return Route{Route::Way::kCompressed};
  if (prefers_native_ && !desc.compressed && plane_->supports(desc))
    return Route{Route::Way::kNative};
  if (transport_ == nullptr) {
    return Status(Code::kUnsupported,
                  fmt::format("{} of {} is not supported by {}", to_string(desc.kind),
                              to_string(desc.dtype), plane_name_));
  }
  RONDE_ASSIGN_OR_RETURN(const Algorithm* algorithm,
                         select_algorithm(desc.kind, desc.bytes, size_, algorithm_, tuned_));
  return Route{Route::Way::kAlgorithm, algorithm};
}

Status WorkRunner::run(const Work& work, const Route& route, const AbortToken& abort,
                       Phases* phases) {
  if (route.way == Route::Way::kNative) return run_native(work, abort, phases);
  if (route.way == Route::Way::kLocal) {
    run_local(work, *kernels_);
    return {};
  }
  try {
    if (route.way == Route::Way::kCompressed) return run_compressed(work, abort, phases);
    return run_algorithm(work, *route.algorithm, abort, phases);
  } catch (const std::bad_alloc&) {  // other ranks wait for this one: the group is broken
    return {Code::kAborted, fmt::format("out of memory in {} of {} bytes", to_string(work.kind),
                                        total_bytes(work))};
  }
}

Status WorkRunner::allreduce_among(Transport& some, const FlatWork& work) {
  RONDE_ASSIGN_OR_RETURN(
      const Algorithm* algorithm,
      select_algorithm(Collective::kAllreduce, work.bytes, some.size(), algorithm_, tuned_));
  try {
    return algorithm->run(some, work, scratch_);
  } catch (const std::bad_alloc&) {
    return {Code::kAborted, fmt::format("out of memory in allreduce of {} bytes", work.bytes)};
  }
}

Status WorkRunner::run_native(const Work& work, const AbortToken& abort, Phases* phases) {
  PhaseObserver* const observer = phases == nullptr ? nullptr : phases->for_plane();
  if (observer == nullptr) return plane_->run(work, abort);
  Work told = work;
  told.phases = observer;
  return plane_->run(told, abort);
}

Status WorkRunner::run_algorithm(const Work& work, const Algorithm& algorithm,
                                 const AbortToken& abort, Phases* phases) {
  FlatWork flat = [&] {
    const Packing packing(phases, "PACK");
    return buffer_.flatten(work, *kernels_, abort);
  }();
  {
    flat.phases = phases == nullptr ? nullptr : &phases->observer();
    const Phase moving(flat.phases, algorithm.name);
    RONDE_RETURN_IF_ERROR(algorithm.run(*transport_, flat, scratch_));
  }
  const Packing unpacking(phases, "UNPACK");
  buffer_.unflatten(work);
  return {};
}

Status WorkRunner::run_compressed(const Work& work, const AbortToken& abort, Phases* phases) {
  const Phase whole(phases == nullptr ? nullptr : &phases->observer(), "COMPRESS AND EXCHANGE");
  const std::vector<CompressedPiece> pieces = pieces_of(work);
  CompressedAllreduce allreduce{.kernels = *kernels_,
                                .abort = abort,
                                .compression = *work.compression,
                                .pieces = pieces,
                                .in_dtype = work.reduction.dtype,
                                .out_dtype = work.reduction.dtype,
                                .factor = work.reduction.scaling.pre * work.reduction.scaling.post};
  const std::size_t kept = count_elements(pieces) * work.compression->kept_floats();
  if (kept > 0) allreduce.left = reinterpret_cast<float*>(scratch_.block(1, kept * sizeof(float)));
  return compressed_allreduce(*transport_, allreduce, scratch_);
}

std::string_view WorkRunner::algorithm_name(const Route& route) noexcept {
  if (route.way == Route::Way::kAlgorithm) return route.algorithm->name;
  if (route.way == Route::Way::kCompressed) return "compressed";
  return route.way == Route::Way::kNative ? kNativeAlgorithm : std::string_view{};
}

std::string WorkRunner::path(const Route& route) const {
  switch (route.way) {
    case Route::Way::kLocal:
      return "local";
    case Route::Way::kNative:
      return plane_name_;
    case Route::Way::kAlgorithm:
      return fmt::format("{} over {}", route.algorithm->name, plane_name_);
    case Route::Way::kCompressed:
      return fmt::format("compressed over {}", plane_name_);
    default:
      return {};
  }
}

}  // namespace ronde
