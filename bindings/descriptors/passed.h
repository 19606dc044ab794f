// Descriptors that a launcher passes to a rank. The rank inherits them by their numbers. A program
// between the two may close them, as Python's subprocess does, and give the numbers to other files.
// So RONDE_DESCRIPTORS says which file each number had, and names a socket of the launcher at which
// processes of its user get the file again.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// The variable: the socket's name, the rank's number, and an entry "VARIABLE=FD:DEVICE:INODE" for
/// each descriptor, with commas between them.
inline constexpr const char* kPassedVariable = "RONDE_DESCRIPTORS";

/// A descriptor, and the variable that tells its number. -1: there is none.
struct PassedDescriptor {
  std::string variable;
  int fd = -1;
};

/// The value of RONDE_DESCRIPTORS for a rank that inherits `descriptors`.
std::string describe_passed(std::string_view socket, int rank,
                            std::span<const PassedDescriptor> descriptors);

/// Takes the descriptor that the launcher passed as `variable`=`fd`. It is closed on exec. Takes
/// the inherited one if the number still is that file; else asks the launcher for it, and leaves
/// the number alone. Nothing if RONDE_DESCRIPTORS lists no such descriptor. Blocks up to `limit`.
/// Errors: kUnavailable with a remedy where the launcher cannot be asked.
Result<std::optional<FileDescriptor>> take_passed(
    std::string_view variable, int fd, std::chrono::milliseconds limit = std::chrono::seconds(30));

/// The request of a process to the launcher's socket: one message.
struct PassedRequest {
  int rank = 0;
  std::string variable;

  [[nodiscard]] std::string text() const;
  /// Reads text() back; nothing where it is something else.
  static std::optional<PassedRequest> parse(std::string_view text);
};

/// The most bytes of a request and of its answer. An answer with the descriptor has any text; one
/// without it says why.
inline constexpr std::size_t kMostPassedBytes = 512;

}  // namespace ronde
