#include "backends/shm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "backends/shm/collectives/collectives.h"

namespace ronde::shm {
namespace {

/// A collective that shared memory does itself. An algorithm does those without a row.
struct Native {
  Collective kind;
  Status (*run)(const Context&, const Work&);
};

constexpr Native kNatives[] = {
    {Collective::kAllreduce, reduce_onto},   {Collective::kBroadcast, broadcast},
    {Collective::kAllgather, gather_chunks}, {Collective::kReduceScatter, reduce_scatter},
    {Collective::kAlltoall, alltoall},       {Collective::kReduce, reduce_onto},
    {Collective::kGather, gather_chunks},    {Collective::kScatter, scatter},
    {Collective::kBarrier, barrier},
};

const Native* native_of(Collective kind) {
  const auto* found = std::find_if(std::begin(kNatives), std::end(kNatives),
                                   [&](const Native& row) { return row.kind == kind; });
  return found == std::end(kNatives) ? nullptr : found;
}

Status dispatch(const Context& with, const Work& work) {
  if (const Native* native = native_of(work.kind)) return native->run(with, work);
  return Status(Code::kUnsupported,
                fmt::format("shared memory moves no data for {}", to_string(work.kind)));
}

/// How long a peer that lives may take to finish one write into this rank's memory.
constexpr std::chrono::milliseconds kLastWrites{500};

CommunicatorTraits shm_traits() {
  return {.name = "shm",
          .supports = SupportTable::of([](Collective kind, DType dtype, ReduceOp op) {
            return native_of(kind) != nullptr &&
                   (!traits_of(kind).reduces || is_defined(op, dtype));
          }),
          .native_first = true,
          .watches = true};
}

}  // namespace

ShmGroup::ShmGroup(Mapping memory, const GroupSpec& group, SpinLimit spin, Reach reach,
                   std::shared_ptr<Arena> arena, std::shared_ptr<const ReduceKernels> kernels)
    : Communicator(shm_traits()),
      memory_(std::move(memory)),
      reach_(std::move(reach)),
      arena_(std::move(arena)),
      kernels_(std::move(kernels)),
      group_abort_(group.abort),
      steps_(Layout(group.size()), memory_.data(), group.size(), group.rank, spin),
      permission_(Layout(group.size()), memory_.data(), group.rank),
      transport_(Layout(group.size()), memory_.data(), group.size(), group.rank, spin,
                 group_abort_.get(), reach_.checks) {
  if (reach_.checks) {
    checks_.emplace(Layout(group.size()), memory_.data(), group.rank, group.ranks);
  }
  scratch_.chunks.resize(static_cast<std::size_t>(group.size()));
  scratch_.inputs.resize(static_cast<std::size_t>(group.size()));
}

Status ShmGroup::run(const Work& work, DeviceStream /*stream*/, const AbortToken& abort) {
  RONDE_RETURN_IF_ERROR(broken_);
  const Stop stop(abort, group_abort_.get());
  broken_ = dispatch({.steps = steps_,
                      .reach = reach_,
                      .permission = permission_,
                      .kernels = *kernels_,
                      .scratch = scratch_,
                      .stop = stop,
                      .phases = work.phases,
                      .watch = work.watch,
                      .checks = checks_ ? &*checks_ : nullptr},
                     work);
  if (!broken_.ok()) {
    permission_.revoke(reach_.pids, kLastWrites);
    abandon(broken_);
  }
  return broken_;
}

std::shared_ptr<std::byte> ShmGroup::allocate(std::size_t bytes, DeviceStream /*stream*/) {
  return arena_ == nullptr ? nullptr : arena_->allocate(bytes);
}

}  // namespace ronde::shm
