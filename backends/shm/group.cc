#include "backends/shm/group.h"

#include <fmt/format.h>

#include <utility>

#include "backends/shm/collectives/collectives.h"

namespace ronde::shm {
namespace {

Status dispatch(const Context& with, const Work& work) {
  switch (work.kind) {
    case Collective::kAllreduce:
    case Collective::kReduce:
      return reduce_onto(with, work);
    case Collective::kReduceScatter:
      return reduce_scatter(with, work);
    case Collective::kBroadcast:
      return broadcast(with, work);
    case Collective::kAllgather:
    case Collective::kGather:
      return gather_parts(with, work);
    case Collective::kScatter:
      return scatter(with, work);
    case Collective::kAlltoall:
      return alltoall(with, work);
    case Collective::kBarrier:
      return barrier(with);
    case Collective::kJoin:
      break;
  }
  return Status(Code::kUnsupported,
                fmt::format("shared memory moves no data for {}", to_string(work.kind)));
}

/// How long a peer that lives may take to finish one write into this rank's memory.
constexpr std::chrono::milliseconds kLastWrites{500};

CommunicatorTraits shm_traits() {
  return {.name = "shm",
          .supports = SupportTable::of([](Collective kind, DType dtype, ReduceOp op) {
            return kind != Collective::kJoin && (!traits_of(kind).reduces || is_defined(op, dtype));
          }),
          .native_first = true};
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
                 group_abort_.get()) {
  scratch_.parts.resize(static_cast<std::size_t>(group.size()));
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
                      .phases = work.phases},
                     work);
  if (!broken_.ok()) permission_.revoke(reach_.pids, kLastWrites);
  return broken_;
}

std::shared_ptr<std::byte> ShmGroup::allocate(std::size_t bytes, DeviceStream /*stream*/) {
  return arena_ == nullptr ? nullptr : arena_->allocate(bytes);
}

}  // namespace ronde::shm
