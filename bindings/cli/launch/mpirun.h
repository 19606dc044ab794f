// Jobs whose ranks mpirun starts: its command line, and its output sorted by rank again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/messages.h"
#include "bindings/cli/launch/ssh.h"
#include "core/base/status.h"

namespace ronde {

enum class MpirunKind {
  kOpenMpi4,
  kOpenMpi5,  ///< Writes a blank after each tag.
  kMpich,     ///< Hydra, also of other MPIs with MPICH's ABI.
};

/// The kind that prints this for `mpirun --version`. Open MPI 4 if the text tells nothing.
MpirunKind mpirun_kind_of(std::string_view version);

/// The kind of the mpirun that is first on PATH. Blocks until it has printed its version.
/// Errors: kUnavailable with a remedy where there is none.
Result<MpirunKind> installed_mpirun();

/// The ranks that mpirun starts, and their hosts.
struct MpirunSpec {
  std::vector<HostRanks> hosts;             ///< A host with an empty name is this one.
  std::vector<std::string> command;         ///< The command of each rank.
  std::vector<std::string> variables = {};  ///< Names that ranks on other hosts get too.
  SshOptions ssh = {};
  std::string network_interface = {};  ///< Empty: mpirun's own choice.
  MpirunKind kind = MpirunKind::kOpenMpi4;
  std::vector<std::string> arguments = {};  ///< The user's, for mpirun.
};

/// The argv that runs the job: `mpirun ... ronde run-mpi-rank COMMAND...`.
/// Errors: kInvalidArgument where an ssh option holds a blank, which mpirun would split, and where
/// another program is to replace ssh.
Result<std::vector<std::string>> mpirun_command(const MpirunSpec& spec);

/// The variables that mpirun itself needs: MPICH's takes ssh's options there. Errors: as above.
Result<EnvironmentList> mpirun_environment(const MpirunSpec& spec);

/// `mpirun`, with the options that let any number of ranks run on this host's cores, as any user.
std::vector<std::string> plain_mpirun(MpirunKind kind);

/// Becomes one rank's program under mpirun: adds torchrun's names (RANK, WORLD_SIZE, LOCAL_RANK,
/// LOCAL_WORLD_SIZE) for what mpirun says. Returns the exit status only where the program cannot be
/// run.
int run_mpi_rank(const std::vector<std::string>& command);

/// Sorts what mpirun_command() writes to one stream: "[1,0]<stdout>:text". Threads: one.
class TaggedOutput {
 public:
  explicit TaggedOutput(MpirunKind kind = MpirunKind::kOpenMpi4) : kind_(kind) {}

  static constexpr int kMpirun = -1;  ///< mpirun's own lines, which have no tag.
  struct Piece {
    int rank = kMpirun;
    std::string text;
  };

  /// Takes in bytes, and returns what they hold without the tags. A tag may come in parts.
  std::vector<Piece> feed(std::string_view bytes);

 private:
  const MpirunKind kind_;
  std::string pending_;
  int rank_ = kMpirun;
};

}  // namespace ronde
