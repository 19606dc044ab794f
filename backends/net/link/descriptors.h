// The file descriptors that this process needs for its connections with ranks of other hosts.
#pragma once

#include <cstdint>

#include "core/base/status.h"

namespace ronde::net {

/// The most descriptors that this process may have open at a time. They are:
/// - those that are open now;
/// - 12 control connections of a leader of a host;
/// - data connections: one with each of `peers` other ranks, or `max_connections` if that is less
///   and not 0. Without a limit a further process set may have as many again;
/// - 64 connections in the handshake;
/// - 64 for the program and for Ronde's other files.
std::uint64_t descriptors_needed(int peers, int max_connections);

/// Raises the soft limit of open files (RLIMIT_NOFILE) to `needed` where it is lower. It becomes
/// the hard limit where that is lower still. Errors: kResourceExhausted in this case, which says
/// how to raise the hard limit.
Status provide_descriptors(std::uint64_t needed);

}  // namespace ronde::net
