// The data plane between threads: a transport, over which the algorithms of ops/ run.
#include <fmt/format.h>

#include <utility>

#include "tests/support/local/factory.h"
#include "tests/support/local/transport.h"

namespace ronde {
namespace {

class LocalGroup final : public Communicator {
 public:
  LocalGroup(std::shared_ptr<LocalMailboxes> boxes, const GroupSpec& spec)
      : Communicator({.name = "local"}), transport_(std::move(boxes), spec.rank, spec.abort) {}

  Status run(const Work& work, DeviceStream, const AbortToken&) override {
    return Status(
        Code::kUnsupported,
        fmt::format("the local data plane only moves messages; {} is done by an algorithm",
                    to_string(work.kind)));
  }
  [[nodiscard]] Transport* transport() noexcept override { return &transport_; }

 private:
  LocalTransport transport_;
};

class LocalBackend final : public Backend {
 public:
  LocalBackend(std::shared_ptr<LocalHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "local"; }
  Status viable(const GroupSpec& group) override;
  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange& exchange) override;

 private:
  const std::shared_ptr<LocalHub> hub_;
  const int rank_;
};

Status LocalBackend::viable(const GroupSpec& group) {
  for (const int rank : group.ranks) {
    if (rank < 0 || rank >= hub_->size()) {
      return Status(Code::kUnavailable, fmt::format("rank {} is no thread of this process", rank));
    }
  }
  return {};
}

Result<std::unique_ptr<Communicator>> LocalBackend::open(const GroupSpec& group, Exchange&) {
  RONDE_RETURN_IF_ERROR(viable(group));
  if (group.ranks[static_cast<std::size_t>(group.rank)] != rank_) {
    return Status(Code::kInvalidArgument,
                  fmt::format("position {} of the group is not rank {}", group.rank, rank_));
  }
  RONDE_ASSIGN_OR_RETURN(auto boxes, hub_->enter_group(group.key, group.ranks));
  return std::unique_ptr<Communicator>(std::make_unique<LocalGroup>(std::move(boxes), group));
}

}  // namespace

std::unique_ptr<Backend> create_local_backend(std::shared_ptr<LocalHub> hub, int rank) {
  return std::make_unique<LocalBackend>(std::move(hub), rank);
}

}  // namespace ronde
