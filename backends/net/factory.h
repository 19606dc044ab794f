// The entry of this folder: connects the ranks of a job by Unix sockets, shared memory and TCP.
#pragma once

#include <memory>
#include <string>

#include "core/base/abort.h"
#include "core/base/os/interfaces.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"
#include "core/ports/backend.h"
#include "core/ports/connection_counts.h"
#include "core/ports/control_channel.h"

namespace ronde {
namespace net {

/// Equal for two processes if they can share memory and abstract Unix sockets: boot id, namespaces
/// and user. Containers with other namespaces count as hosts of their own where ranks meet by TCP.
std::string host_identity();

}  // namespace net

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

struct ConnectOptions {
  std::string version;  ///< Must be the same on all ranks.
  /// Aborted from threads of the channel as soon as a rank is lost; may be null.
  std::shared_ptr<AbortToken> abort = nullptr;
  CancelSource cancel = {};            ///< Ends connecting early.
  ConnectionObservers observers = {};  ///< Of data connections.
  // Tests pretend other hosts:
  std::string host_name = ronde::host_name();
  /// Ranks with different identities are connected by TCP, even on one machine.
  std::string host_identity = net::host_identity();
};

/// Connects this rank with the job that `config` describes: rank, size, job_id, rendezvous,
/// secret_file or secret_fd, network_interface, max_connections, start_timeout, link_timeout.
/// A job of one rank opens no socket. Blocks until all ranks are connected, start_timeout at most.
/// Errors: those of `cancel`; kTimeout naming the missing ranks; kVersionMismatch naming ranks,
/// hosts and versions; kRankFailure where a rank went away meanwhile; kInvalidArgument naming a
/// setting; kResourceExhausted where the limit of open files is too low; kUnavailable.
Result<JobLink> connect_job(const Config& config, const ConnectOptions& options);

/// The way data goes between hosts: "not encrypted", or the cipher.
std::string describe_encryption(const Config& config);

}  // namespace ronde
