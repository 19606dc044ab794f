#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "backends/mpi/collectives.h"
#include "backends/mpi/factory.h"
#include "backends/mpi/library.h"
#include "backends/mpi/transport.h"

namespace ronde {
namespace {

using mpi::Library;

/// Owns one communicator of MPI. After an abort it is not freed, as MPI may wait for ever then.
class OwnedComm {
 public:
  OwnedComm(MPI_Comm handle, std::shared_ptr<AbortToken> abort)
      : handle_(handle), abort_(std::move(abort)) {}
  ~OwnedComm() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    const Status why = abort_->status();
    if (!why.ok() && why.code() != Code::kAborted) Library::instance().note_failure();
    if (finalized != 0 || !why.ok()) return;
    const Library::Turn turn;
    MPI_Comm_free(&handle_);
  }
  OwnedComm(const OwnedComm&) = delete;
  OwnedComm& operator=(const OwnedComm&) = delete;
  [[nodiscard]] MPI_Comm handle() const noexcept { return handle_; }

 private:
  MPI_Comm handle_;
  const std::shared_ptr<AbortToken> abort_;
};

class MpiGroup final : public Communicator {
 public:
  MpiGroup(MPI_Comm handle, const GroupSpec& group, const ModuleOptions& options)
      : Communicator({.name = "mpi", .supports = mpi::supported(), .plain = true}),
        comm_(handle, group.abort),
        unprotected_(options.unprotected),
        transport_(handle, group.rank, group.size()),
        collectives_(handle) {}

  Status run(const Work& work, DeviceStream, const AbortToken& abort) override {
    if (abort.aborted()) return abort.status();
    if (unprotected_) return mpi::run_direct(comm_.handle(), work);
    return collectives_.run(work, abort);
  }
  Transport* transport() noexcept override { return &transport_; }

 private:
  OwnedComm comm_;
  const bool unprotected_;
  mpi::MpiTransport transport_;
  mpi::MpiCollectives collectives_;
};

/// Exchanges this process's rank in MPI's world, or why it has none, with those of the group.
Result<std::vector<int>> agree_world_ranks(const GroupSpec& group, Exchange& exchange) {
  const Status started = Library::instance().start();
  int mine = -1;
  if (started.ok()) MPI_Comm_rank(MPI_COMM_WORLD, &mine);
  const std::string text = started.ok() ? std::to_string(mine) : started.message();
  RONDE_ASSIGN_OR_RETURN(const auto answers, exchange.allgather(text));
  std::vector<int> ranks;
  for (std::size_t r = 0; r < answers.size(); ++r) {
    const char* end = answers[r].data() + answers[r].size();
    int rank = 0;
    if (std::from_chars(answers[r].data(), end, rank).ptr != end) {
      return Status(Code::kUnavailable, fmt::format("rank {}: {}", group.ranks[r], answers[r]));
    }
    const auto twin = std::find(ranks.begin(), ranks.end(), rank);
    if (twin != ranks.end()) {
      return Status(Code::kUnavailable,
                    fmt::format("ranks {} and {} are both {} in MPI's world: start all of them by "
                                "one mpirun",
                                group.ranks[static_cast<std::size_t>(twin - ranks.begin())],
                                group.ranks[r], rank));
    }
    ranks.push_back(rank);
  }
  return ranks;
}

/// Blocks in MPI until all ranks have come. An abort cannot end it.
Result<MPI_Comm> create_communicator(const std::vector<int>& world_ranks, std::uint64_t key) {
  const Library::Turn turn;
  MPI_Group world = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, static_cast<int>(world_ranks.size()), world_ranks.data(), &members);
  const int tag = static_cast<int>(key % 32768);  // the least that MPI_TAG_UB may be
  const int code = MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &communicator);
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  RONDE_RETURN_IF_ERROR(mpi::status_of(code, "MPI_Comm_create_group"));
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return communicator;
}

class MpiBackend final : public Backend {
 public:
  explicit MpiBackend(ModuleOptions options) : options_(std::move(options)) {}

  std::string_view name() const noexcept override { return "mpi"; }

  Status viable(const GroupSpec& group) override {
    return Library::instance().viable(group.size());
  }

  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange& exchange) override {
    RONDE_ASSIGN_OR_RETURN(const auto world_ranks, agree_world_ranks(group, exchange));
    RONDE_ASSIGN_OR_RETURN(const MPI_Comm handle, create_communicator(world_ranks, group.key));
    return std::unique_ptr<Communicator>(std::make_unique<MpiGroup>(handle, group, options_));
  }

 private:
  const ModuleOptions options_;
};

}  // namespace

std::unique_ptr<Backend> create_mpi_backend(const ModuleOptions& options) {
  return std::make_unique<MpiBackend>(options);
}

}  // namespace ronde
