#include "ops/hierarchical/communicator.h"

#include <fmt/format.h>

#include <utility>

#include "ops/hierarchical/levels.h"

namespace ronde {
namespace {

CommunicatorTraits traits_of(const Hierarchy& hierarchy, const Communicator& between) {
  const bool lossy = between.traits().lossy;
  return {.name = hierarchy.name(),
          .supports = SupportTable::of([&](Collective kind, DType, ReduceOp) {
            return lossy ? traits_of(kind).codecs != Codecs::kNone
                         : goes_in_levels(kind, hierarchy.deterministic());
          }),
          .native_first = true,
          .lossy = lossy,
          .polls = hierarchy.polls()};
}

/// The group's, for some of its ranks, without the user's algorithm.
AlgorithmOptions options_for(AlgorithmOptions options, int rank, std::size_t size) {
  options.algorithm.clear();
  options.rank = rank;
  options.size = static_cast<int>(size);
  return options;
}

}  // namespace

bool goes_in_levels(Collective kind, bool deterministic) noexcept {
  return kind == Collective::kAllreduce || kind == Collective::kBroadcast ||
         kind == Collective::kAllgather || (kind == Collective::kReduceScatter && !deterministic);
}

Hierarchy::Hierarchy(HostParts parts, const AlgorithmOptions& options, std::size_t slice_bytes)
    : layout_(std::move(parts.layout)),
      options_(options),
      slice_bytes_(slice_bytes),
      outer_(std::move(parts.whole)),
      inner_(std::move(parts.inside),
             options_for(options, layout_.local, layout_.hosts[layout_.host].size())),
      name_(fmt::format("{}, {} inside hosts", outer_->traits().name, inner_.traits().name)),
      peers_(*outer_->transport(), layout_.peers(), static_cast<int>(layout_.host)) {}

bool Hierarchy::polls() const noexcept { return inner_.traits().polls && outer_->traits().polls; }

Levels Hierarchy::levels() noexcept {
  return {layout_,  *outer_->transport(), inner_, *options_.kernels, options_.tuned,
          scratch_, wire_scratch_,        wire_,  slice_bytes_};
}

std::unique_ptr<Communicator> Hierarchy::dense_between() {
  return std::make_unique<AlgorithmCommunicator>(
      peers_, options_for(options_, peers_.rank(), static_cast<std::size_t>(peers_.size())));
}

HierarchicalCommunicator::HierarchicalCommunicator(std::shared_ptr<Hierarchy> hierarchy,
                                                   std::unique_ptr<Communicator> between)
    : Communicator(traits_of(*hierarchy, *between)),
      hierarchy_(std::move(hierarchy)),
      between_(std::move(between)) {}

Status HierarchicalCommunicator::run(const Work& work, DeviceStream /*stream*/,
                                     const AbortToken& abort) {
  // Segments inside are not those of the work.
  const Status status = run_in_levels(work, abort).in_tensor({});
  // Others may wait for this rank inside.
  if (!status.ok()) hierarchy_->levels().inner.abandon(status);
  return status;
}

Status HierarchicalCommunicator::run_in_levels(const Work& work, const AbortToken& abort) {
  const Levels levels = hierarchy_->levels();
  switch (work.kind) {
    case Collective::kBroadcast:
      return hierarchical_broadcast(levels, work, abort);
    case Collective::kAllgather:
      return hierarchical_allgather(levels, *between_, work, abort);
    case Collective::kReduceScatter:
      return hierarchical_reduce_scatter(levels, *between_, work, abort);
    default:
      return hierarchical_allreduce(levels, *between_, work, abort);
  }
}

}  // namespace ronde
