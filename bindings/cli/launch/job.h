// The environment of the ranks of a job, where they meet, the job's secrets, and the messages that
// start it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/status.h"

namespace ronde {

struct LaunchOptions;

/// `bytes` random bytes from the kernel, in hexadecimal.
std::string random_hex(std::size_t bytes);

/// An address and free ports of a host, as its agent reported them. Those of rank 0's host are the
/// job's rendezvous.
struct Rendezvous {
  std::string address;
  int rendezvous_port = 0;
  int master_port = 0;
};

/// The variables of one rank: RONDE_*, torchrun's and Horovod's names for the same facts.
/// `hosts[host]` holds the rank, as its local rank number `local_rank`.
EnvironmentList rank_environment(const std::vector<HostRanks>& hosts, std::size_t host,
                                 int local_rank);

/// The variables that all ranks share. RONDE_RENDEZVOUS is there for several hosts only.
EnvironmentList job_environment(const std::string& job_id, const Rendezvous& rendezvous,
                                bool several_hosts);

/// RONDE_RENDEZVOUS_TREE of each host: where its ranks meet, and where those of the host above it
/// do. `stretches` holds all ranks in order; a host may have several. `places` has one for each
/// host, in the order in which `stretches` first name them.
std::vector<std::string> rendezvous_trees(const std::vector<HostRanks>& stretches,
                                          const std::vector<Rendezvous>& places);

/// Removes the variables by which a launcher has told this process that it is a rank, so that a job
/// which it starts has none of them. Call from the only thread of the process.
void forget_own_rank();

/// The variables of this process that ranks on other hosts get too: where programs and libraries
/// are found, and settings of Ronde, Horovod, Python, OpenMP, NCCL, CUDA, UCX and frameworks.
EnvironmentList forwarded_environment();

/// Reads "NAME=value", or "NAME" for this process's value.
/// Errors: kInvalidArgument where the name is not valid or not set here.
Result<std::string> environment_entry(const std::string& text);

/// One message a host, in the order of `options.hosts`: the command and each rank's variables. All
/// carry the job's secret, a new one at each call. `places` says where ranks meet on each host.
/// With rank 0's alone, or where the user sets RONDE_RENDEZVOUS for the ranks, all meet there.
std::vector<StartMessage> start_messages(const LaunchOptions& options,
                                         const std::vector<Rendezvous>& places);

/// The message for a job that mpirun starts. It makes ranks of its processes by itself; they lack
/// only the rendezvous.
StartMessage mpirun_start_message(const LaunchOptions& options, const Rendezvous& rendezvous);

/// The questions to the hosts of a job or an epoch, and their answers. The caller carries both.
/// Hosts are numbered in ascending order of their lowest ranks. Threads: one.
class RendezvousProbe {
 public:
  struct Args {
    std::vector<std::string> hosts;  ///< Their names.
    std::string interface;           ///< As LaunchOptions::network_interface.
    bool first_alone = false;        ///< Only the first host is asked.
    /// Takes a sentence that --verbose prints.
    std::function<void(const std::string& text)> say_if_verbose;
  };
  explicit RendezvousProbe(Args args)
      : args_(std::move(args)), answers_(args_.first_alone ? 1 : args_.hosts.size()) {}

  [[nodiscard]] const std::vector<std::string>& hosts() const noexcept { return args_.hosts; }
  /// The first so many hosts are asked.
  [[nodiscard]] std::size_t asked() const noexcept { return answers_.size(); }
  [[nodiscard]] ProbeMessage question(std::size_t host) const;

  /// Takes an answer. A host but that of rank 0 may not know its address: all ranks then meet at
  /// rank 0. Errors: kUnavailable with those of rank 0's host.
  Status take(std::size_t host, ProbedMessage answer);
  [[nodiscard]] bool complete() const noexcept { return answered_ == asked(); }
  /// True if the host was asked, and has answered.
  [[nodiscard]] bool has_answer(std::size_t host) const {
    return host < asked() && answers_[host].has_value();
  }

  /// By host, once complete; where one does not know its address, rank 0's host alone.
  [[nodiscard]] std::vector<Rendezvous> places() const;

 private:
  const Args args_;
  std::vector<std::optional<ProbedMessage>> answers_;
  std::size_t answered_ = 0;
};

}  // namespace ronde
