#include "ops/communicator/algorithm.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "ops/communicator/bundle_tracer.h"
#include "ops/partial.h"

namespace ronde {
namespace {

/// Smaller native collectives report no phases, as that would make them noticeably slower.
constexpr std::size_t kWorthReporting = std::size_t{4} << 10;

/// The user's override. "hierarchical" names no algorithm here: it asks for levels.
std::string_view override_of(const AlgorithmOptions& options) {
  return options.algorithm == kHierarchicalAlgorithm ? std::string_view()
                                                     : std::string_view(options.algorithm);
}

std::string algorithm_of(const AlgorithmOptions& options) {
  return std::string(options.deterministic ? kDeterministicAlgorithm : override_of(options));
}

/// The collectives of `inner` come first: they are its best, asked for, or all that there is.
bool prefers_native(Communicator& inner, const AlgorithmOptions& options) {
  return algorithm_of(options) == kNativeAlgorithm || inner.transport() == nullptr ||
         (inner.traits().native_first && (options.deterministic || override_of(options).empty()));
}

Facts facts_of(Communicator* inner, const AlgorithmOptions& options, bool has_transport) {
  return when(options.size == 1, Fact::kOneRank) |
         when(inner != nullptr && prefers_native(*inner, options), Fact::kPrefersNative) |
         when(has_transport, Fact::kTransport);
}

/// Stands for a communicator where the work has a transport alone.
class NoCollectives final : public Communicator {
 public:
  NoCollectives() : Communicator({.name = "transport"}) {}
  Status run(const Work& work, DeviceStream, const AbortToken&) override {
    return {Code::kUnsupported, fmt::format("{} is done by an algorithm", to_string(work.kind))};
  }
};

/// The communicator inside. A single rank has copies in place of the one that was opened.
std::unique_ptr<Communicator> inner_of(std::unique_ptr<Communicator> opened,
                                       const AlgorithmOptions& options) {
  if (options.size == 1) return std::make_unique<LocalCommunicator>(options.kernels);
  if (opened != nullptr) return opened;
  return std::make_unique<NoCollectives>();
}

CommunicatorTraits traits_of(const Communicator* inner) {
  return {.name = inner == nullptr ? "self" : inner->traits().name,
          .supports = SupportTable::of([](auto...) { return true; }),
          .native_first = true,
          .watches = inner != nullptr && inner->traits().watches,
          .polls = inner == nullptr || inner->traits().polls};
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

}  // namespace

AlgorithmCommunicator::AlgorithmCommunicator(std::unique_ptr<Communicator> inner,
                                             AlgorithmOptions options)
    : Communicator(traits_of(inner.get())),
      transport_(inner == nullptr || options.size == 1 ? nullptr : inner->transport()),
      kernels_(options.kernels),
      algorithm_(algorithm_of(options)),
      tuned_(std::move(options.tuned)),
      rank_(options.rank),
      size_(options.size),
      fixed_facts_(facts_of(inner.get(), options, transport_ != nullptr)),
      reports_packing_(true),
      inner_(inner_of(std::move(inner), options)),
      copies_(inner_.get()),
      buffer_(copies_, options.rank, options.size) {}

AlgorithmCommunicator::AlgorithmCommunicator(Transport& transport, AlgorithmOptions options)
    : Communicator(traits_of(nullptr)),
      transport_(&transport),
      kernels_(options.kernels),
      algorithm_(algorithm_of(options)),
      tuned_(std::move(options.tuned)),
      rank_(options.rank),
      size_(options.size),
      fixed_facts_(facts_of(nullptr, options, true)),
      reports_packing_(false),
      inner_(inner_of(nullptr, options)),
      copies_(nullptr),
      buffer_(copies_, options.rank, options.size) {}

std::unique_ptr<AlgorithmCommunicator> AlgorithmCommunicator::among(Transport& some) const {
  return std::make_unique<AlgorithmCommunicator>(some, AlgorithmOptions{.kernels = kernels_,
                                                                        .algorithm = algorithm_,
                                                                        .tuned = tuned_,
                                                                        .rank = some.rank(),
                                                                        .size = some.size()});
}

Result<Route> AlgorithmCommunicator::route(const Work& work) const {
  const Path path = select_path(facts(work));
  if (path == Path::kNative || path == Path::kLocal) return Route{path, nullptr};
  if (path == Path::kNone) {
    return Status(Code::kUnsupported,
                  fmt::format("{} of {} is not supported by {}", to_string(work.kind),
                              to_string(work.reduction.dtype), traits().name));
  }
  const std::string_view wanted =
      algorithm_.empty() ? exact_algorithm(work.reduction, size_) : algorithm_;
  RONDE_ASSIGN_OR_RETURN(const Algorithm* algorithm,
                         select_algorithm(work.kind, work.bytes, size_, wanted, tuned_));
  return Route{Path::kAlgorithm, algorithm};
}

Status AlgorithmCommunicator::run(const Work& work, const Route& route, const AbortToken& abort) {
  if (route.path != Path::kAlgorithm && !inner_->traits().plain) return run_native(work, abort);
  try {
    return run_flat(work, route, abort);
  } catch (const std::bad_alloc&) {  // other ranks wait for this one: the group is broken
    return {Code::kAborted, fmt::format("out of memory in {} of {} bytes", to_string(work.kind),
                                        total_bytes(work))};
  }
}

Status AlgorithmCommunicator::run_native(const Work& work, const AbortToken& abort) {
  if (work.phases == nullptr || work.phases->bytes() >= kWorthReporting) {
    return inner_->run(work, kNoStream, abort);
  }
  Work quiet = work;
  quiet.phases = nullptr;
  return inner_->run(quiet, kNoStream, abort);
}

Status AlgorithmCommunicator::run_flat(const Work& work, const Route& route,
                                       const AbortToken& abort) {
  PhaseObserver* const parts = reports_packing_ ? work.phases : nullptr;
  FlatWork flat = [&] {
    const Phase packing(parts, kPackPhase);
    return buffer_.flatten(work, *kernels_, abort);
  }();
  {
    flat.phases = work.phases;
    const Phase moving(parts, algorithm_name(route));
    RONDE_RETURN_IF_ERROR(route.algorithm == nullptr
                              ? run_plain(flat, work)
                              : route.algorithm->run(*transport_, flat, scratch_));
  }
  const Phase unpacking(parts, kUnpackPhase);
  buffer_.unflatten(work);
  return {};
}

/// Applies the factors of reductions, before and after the inner collective.
Status AlgorithmCommunicator::run_plain(const FlatWork& flat, const Work& work) {
  const DType dtype = work.reduction.dtype;
  const PartialReduction partial(work.reduction, *kernels_);
  const bool widens = !is_floating(dtype) && partial.width() != partial.element();
  if (widens && traits_of(work.kind).reduces) return run_wide(flat, work, partial);
  const auto scale = [&](double factor, const void* from, std::byte* to, std::size_t bytes) {
    kernels_->reduce({dtype, ReduceOp::kSum, {1.0, factor}}, {&from, 1}, to,
                     bytes / size_of(dtype));
  };
  const auto [pre, post] = traits_of(work.kind).reduces ? work.reduction.scaling : Scaling();
  const SideBytes sides = side_bytes(work, rank_, size_);
  Segment segment{flat.in, flat.out, flat.bytes};
  if (pre != 1.0) {
    std::byte* const scaled = scratch_.block(0, sides.in);
    scale(pre, flat.in, scaled, sides.in);
    segment.in = scaled;
  }
  Work plain = work_of(flat, segment, work);
  plain.reduction.scaling = {};
  RONDE_RETURN_IF_ERROR(inner_->run(plain, kNoStream, flat.abort));
  if (post != 1.0) scale(post, flat.out, flat.out, sides.out);
  return {};
}

/// Integers whose sums need more bits than the type has before they are scaled.
Status AlgorithmCommunicator::run_wide(const FlatWork& flat, const Work& work,
                                       const PartialReduction& partial) {
  const SideBytes sides = side_bytes(work, rank_, size_);
  const std::size_t count = flat.bytes / partial.element();
  const std::size_t bytes = count * partial.width();
  std::byte* const wide = scratch_.block(0, 2 * bytes);
  partial.load(flat.in, wide, count);
  const Segment segment{wide, wide + bytes, bytes};
  Work plain = work_of(flat, segment, work);
  plain.reduction = partial.sums();
  plain.bytes = bytes;
  RONDE_RETURN_IF_ERROR(inner_->run(plain, kNoStream, flat.abort));
  partial.finish(segment.out, flat.out, sides.out / partial.element());
  return {};
}

std::string_view AlgorithmCommunicator::algorithm_name(const Route& route) noexcept {
  if (route.path == Path::kAlgorithm) return route.algorithm->name;
  return route.path == Path::kNative ? kNativeAlgorithm : std::string_view{};
}

LocalCommunicator::LocalCommunicator(std::shared_ptr<const ReduceKernels> kernels)
    : Communicator({.name = "self",
                    .supports = SupportTable::of([](auto...) { return true; }),
                    .native_first = true}),
      kernels_(std::move(kernels)) {}

Status LocalCommunicator::run(const Work& work, DeviceStream /*stream*/,
                              const AbortToken& /*abort*/) {
  const Scaling& scaling = work.reduction.scaling;
  const bool scaled = traits_of(work.kind).reduces && (scaling.pre != 1.0 || scaling.post != 1.0);
  for (const Segment& segment : work.segments) {
    move_segment(segment, scaled ? &work.reduction : nullptr, *kernels_);
  }
  return {};
}

}  // namespace ronde
