// Messages of Unix sockets that carry a descriptor (SCM_RIGHTS).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "core/base/os/file_descriptor.h"

namespace ronde {

/// A message, and the descriptor that came with it; the descriptor is closed on exec.
struct FileMessage {
  std::string bytes;
  FileDescriptor file;
};

/// Sends one message, with a descriptor unless `file` is -1. Blocks: never. As send().
ssize_t send_with_file(int socket, const std::string& bytes, int file) noexcept;

/// Receives one message of up to `most` bytes. The kernel drops all descriptors but the first.
/// Blocks only if the socket does. Empty where recvmsg() fails or the other end is closed.
FileMessage receive_with_file(int socket, std::size_t most);

}  // namespace ronde
