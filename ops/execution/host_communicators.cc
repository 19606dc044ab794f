#include "ops/execution/host_communicators.h"

#include <fmt/format.h>

#include <utility>

#include "ops/hierarchical/communicator.h"

namespace ronde {
namespace {

AlgorithmOptions dense_options(std::unique_ptr<Communicator> inner, const HostOptions& options) {
  return {.inner = std::move(inner),
          .kernels = options.kernels,
          .algorithm = options.algorithm,
          .tuned = options.tuned,
          .deterministic = options.deterministic,
          .rank = options.rank,
          .size = options.size};
}

}  // namespace

HostCommunicators::HostCommunicators(HostParts parts, const HostOptions& options)
    : levels_(parts.whole != nullptr && parts.layout.has_levels()) {
  if (levels_) {
    compose_levels(std::move(parts), options);
    return;
  }
  dense_ = std::make_unique<AlgorithmCommunicator>(dense_options(std::move(parts.whole), options));
  in_memory_ = options.size > 1 && dense_->prefers_native();
  if (dense_->transport() == nullptr) return;
  auto codec = std::make_unique<TransportCompressed>(dense_->traits().name, *dense_->transport(),
                                                     options.kernels);
  codec_ = codec.get();
  compressed_ = std::move(codec);
}

void HostCommunicators::compose_levels(HostParts parts, const HostOptions& options) {
  HierarchyOptions levels;
  levels.inner = {.inner = std::move(parts.inside),
                  .kernels = options.kernels,
                  .tuned = options.tuned,
                  .deterministic = options.deterministic,
                  .rank = parts.layout.local,
                  .size = static_cast<int>(parts.layout.hosts[parts.layout.host].size())};
  levels.layout = std::move(parts.layout);
  levels.outer = std::move(parts.whole);
  levels.kernels = options.kernels;
  levels.tuned = options.tuned;
  levels.deterministic = options.deterministic;
  const auto hierarchy = std::make_shared<Hierarchy>(std::move(levels));
  dense_ = std::make_unique<AlgorithmCommunicator>(dense_options(
      std::make_unique<HierarchicalCommunicator>(hierarchy, hierarchy->dense_between()), options));
  auto codec =
      std::make_unique<TransportCompressed>(hierarchy->name(), hierarchy->peers(), options.kernels);
  codec_ = codec.get();
  compressed_ = std::make_unique<HierarchicalCommunicator>(hierarchy, std::move(codec));
}

Result<Path> HostCommunicators::compressed_path(const Work& work) const {
  const Path path = select_path(dense_->facts(work) | when(true, Fact::kCompressed) |
                                when(levels_, Fact::kLevels));
  if (path != Path::kNone) return path;
  return Status(Code::kUnsupported,
                fmt::format("{} of {} is not supported by {}", to_string(work.kind),
                            to_string(work.reduction.dtype), dense_->traits().name));
}

}  // namespace ronde
