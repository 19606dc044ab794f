// The entry of this folder: connects the ranks of a job by Unix sockets, shared memory and TCP.
#pragma once

#include <memory>
#include <string>

#include "core/base/abort.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"
#include "core/ports/backend.h"
#include "core/ports/connection_counts.h"
#include "core/ports/control_channel.h"

namespace ronde {

/// The network interfaces that carry data between hosts.
struct NetworkInterfaces {
  std::string names;  ///< "eth0" or "eth0,eth1"; empty in a job of one host.
  int megabits = 0;   ///< Per second, of all, as they report; 0: unknown.
};

/// A process's connection to its job.
struct JobLink {
  std::unique_ptr<ControlChannel> channel;
  std::unique_ptr<Backend> tcp;  ///< Ronde's own data plane between hosts; see Backend::name.
  NetworkInterfaces interfaces = {};
};

/// Connects this rank with the job that `config` describes: rank, size, job_id, rendezvous,
/// secret_file or secret_fd, network_interface, max_connections, start_timeout, link_timeout.
/// `version` must be the same on all ranks. `abort`, where not null, is aborted from threads of the
/// channel as soon as a rank is lost. `cancel` ends it early. `observers` observe data
/// connections. A job of one rank opens no socket. Blocks until all ranks are connected,
/// start_timeout at most. Errors: those of `cancel`; kTimeout naming the missing ranks;
/// kVersionMismatch naming ranks, hosts and versions; kRankFailure where a rank went away
/// meanwhile; kInvalidArgument naming a setting; kResourceExhausted where the limit of open files
/// is too low; kUnavailable.
Result<JobLink> connect_job(const Config& config, const std::string& version,
                            std::shared_ptr<AbortToken> abort = nullptr, CancelSource cancel = {},
                            ConnectionObservers observers = {});

/// The way data goes between hosts: "not encrypted", or the cipher.
std::string describe_encryption(const Config& config);

namespace net {

/// The facts of this process that the other ranks learn.
struct ConnectOptions {
  std::string version;
  std::string host_name;
  /// Ranks with different identities are connected by TCP, even on one machine.
  std::string host_identity;
  std::shared_ptr<AbortToken> abort;  ///< May be null.
  CancelSource cancel = {};
  ConnectionObservers observers = {};
};

/// connect_job() with what tests may replace.
Result<JobLink> connect_ranks(const Config& config, const ConnectOptions& options);

}  // namespace net
}  // namespace ronde
