#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>

#include "backends/nccl/collectives.h"
#include "backends/nccl/communicator.h"
#include "backends/nccl/factory.h"
#include "backends/nccl/library.h"
#include "core/base/mutex.h"

namespace ronde {
namespace {

class NcclGroup final : public Communicator {
 public:
  NcclGroup(std::unique_ptr<nccl::Communicator> communicator, std::shared_ptr<DeviceOps> device,
            int rank, int size)
      : Communicator({.name = "nccl", .supports = nccl::supported(), .memory = DeviceKind::kCuda}),
        communicator_(std::move(communicator)),
        device_(std::move(device)),
        collectives_(*communicator_, device_, rank, size),
        memory_(*communicator_, device_) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes, DeviceStream stream) override {
    return memory_.allocate(bytes, stream);
  }

  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override {
    if (abort.aborted()) return abort.status();
    RONDE_RETURN_IF_ERROR(collectives_.launch(work, stream));
    RONDE_ASSIGN_OR_RETURN(DeviceEventPtr done, device_->record(stream));
    communicator_->watch(std::move(done));
    return {};
  }

 private:
  const std::unique_ptr<nccl::Communicator> communicator_;
  const std::shared_ptr<DeviceOps> device_;
  nccl::Collectives collectives_;
  nccl::RegisteredMemory memory_;
};

std::string text_of(const ncclUniqueId& id) { return {id.internal, sizeof(id.internal)}; }

/// Sends the first rank's id, or its error, to all ranks.
Result<ncclUniqueId> agree_on_id(const nccl::Api& api, const GroupSpec& group, Exchange& exchange) {
  ncclUniqueId id{};
  Status made;
  if (group.rank == 0) {
    made = nccl::status_of(api, api.get_unique_id(&id), "ncclGetUniqueId");
  }
  RONDE_ASSIGN_OR_RETURN(const auto errors, exchange.allgather(made.message()));
  if (!errors[0].empty()) {
    return Status(Code::kUnavailable, fmt::format("rank {}: {}", group.ranks[0], errors[0]));
  }
  RONDE_ASSIGN_OR_RETURN(const auto ids,
                         exchange.allgather(group.rank == 0 ? text_of(id) : std::string()));
  if (ids[0].size() != sizeof(id.internal)) {
    return Status(Code::kInternal, fmt::format("an NCCL id of {} bytes", ids[0].size()));
  }
  std::memcpy(id.internal, ids[0].data(), sizeof(id.internal));
  return id;
}

class NcclBackend final : public Backend {
 public:
  explicit NcclBackend(std::function<Result<nccl::Api>()> load) : load_(std::move(load)) {}

  std::string_view name() const noexcept override { return "nccl"; }
  DeviceKind memory() const noexcept override { return DeviceKind::kCuda; }

  Status viable(const GroupSpec&) override { return api().status(); }

  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange& exchange) override {
    RONDE_ASSIGN_OR_RETURN(const nccl::Api entry_points, api());
    RONDE_ASSIGN_OR_RETURN(const ncclUniqueId id, agree_on_id(entry_points, group, exchange));
    RONDE_ASSIGN_OR_RETURN(
        auto communicator,
        nccl::Communicator::open(entry_points, {id, group.rank, group.size(), group.deadline},
                                 group.device, group.abort));
    return std::unique_ptr<Communicator>(std::make_unique<NcclGroup>(
        std::move(communicator), group.device, group.rank, group.size()));
  }

 private:
  Result<nccl::Api> api() RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!api_) api_.emplace(load_());
    return *api_;
  }

  const std::function<Result<nccl::Api>()> load_;
  Mutex mutex_;
  std::optional<Result<nccl::Api>> api_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Backend> create_nccl_backend(const ModuleOptions&) {
  return create_nccl_backend([] { return nccl::load_api(); });
}

std::unique_ptr<Backend> create_nccl_backend(std::function<Result<nccl::Api>()> load) {
  return std::make_unique<NcclBackend>(std::move(load));
}

}  // namespace ronde
