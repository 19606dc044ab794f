#include "bindings/cli/launch/carried_call.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "bindings/cli/launch/messages.h"

namespace ronde {
namespace {

Result<FileDescriptor> make_file(const char* name) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return errno_status("cannot make a memory file", Code::kResourceExhausted);
  return file;
}

}  // namespace

void CarriedCall::take(std::string_view bytes) {
  if (status_.ok()) status_ = append(bytes);
}

Status CarriedCall::append(std::string_view bytes) {
  if (!call_.valid()) {
    RONDE_ASSIGN_OR_RETURN(call_, make_file("ronde-call"));
  }
  while (!bytes.empty()) {
    const ssize_t written = ::write(call_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return errno_status("cannot keep the function to call", Code::kResourceExhausted);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<FileDescriptor> make_answer_file() { return make_file("ronde-answer"); }

void send_answer(int file, const std::function<void(std::string piece)>& send) {
  const int seals = ::fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_WRITE) == 0) return;
  for (off_t at = 0;;) {
    std::string piece(kCallPieceBytes, '\0');
    const ssize_t count = ::pread(file, piece.data(), piece.size(), at);
    if (count < 0) return;
    piece.resize(static_cast<std::size_t>(count));
    send(std::move(piece));
    if (count == 0) return;
    at += count;
  }
}

}  // namespace ronde
