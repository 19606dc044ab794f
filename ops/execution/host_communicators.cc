#include "ops/execution/host_communicators.h"

#include <fmt/format.h>

#include <utility>

namespace ronde {

HostCommunicators::HostCommunicators(HostParts parts, const AlgorithmOptions& options)
    : levels_(parts.whole != nullptr && parts.layout.has_levels()) {
  if (levels_) {
    const auto hierarchy = std::make_shared<Hierarchy>(std::move(parts), options);
    dense_ = std::make_unique<AlgorithmCommunicator>(
        std::make_unique<HierarchicalCommunicator>(hierarchy, hierarchy->dense_between()), options);
    auto codec = std::make_unique<TransportCompressed>(hierarchy->name(), hierarchy->peers(),
                                                       options.kernels);
    codec_ = codec.get();
    compressed_ = std::make_unique<HierarchicalCommunicator>(hierarchy, std::move(codec));
    return;
  }
  dense_ = std::make_unique<AlgorithmCommunicator>(std::move(parts.whole), options);
  in_memory_ = options.size > 1 && dense_->prefers_native();
  if (dense_->transport() == nullptr) return;
  auto codec = std::make_unique<TransportCompressed>(dense_->traits().name, *dense_->transport(),
                                                     options.kernels);
  codec_ = codec.get();
  compressed_ = std::move(codec);
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
