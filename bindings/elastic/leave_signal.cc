#include "bindings/elastic/leave_signal.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/settings/config.h"
#include "core/elastic/notes.h"

namespace ronde::elastic {
namespace {

constexpr const char* kSignalVariable = "RONDE_LEAVE_SIGNAL";

/// The data of the handler, which may not allocate. Written before the handler is set.
struct Note {
  int descriptor = -1;
  std::string message;
  pid_t process = 0;  // that watches
  struct sigaction before {};
};
Note note;
std::atomic<bool> asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int number) {
  if (::getpid() != note.process) {  // a child that was forked is no worker
    ::sigaction(number, &note.before, nullptr);
    ::raise(number);
    return;
  }
  if (asked.exchange(true)) return;
  const int error = errno;
  (void)::send(note.descriptor, note.message.data(), note.message.size(),
               MSG_NOSIGNAL | MSG_DONTWAIT);
  errno = error;
}

Result<int> chosen_signal() {
  const std::string name = process_environment()(kSignalVariable).value_or("TERM");
  if (name == "TERM") return SIGTERM;
  if (name == "USR1") return SIGUSR1;
  if (name == "off") return 0;
  return Status(Code::kInvalidArgument,
                fmt::format("{}='{}'; allowed: TERM, USR1, off", kSignalVariable, name));
}

}  // namespace

bool asked_to_leave() noexcept { return asked; }

Result<std::unique_ptr<LeaveSignal>> LeaveSignal::watch(const Member* member) {
  RONDE_ASSIGN_OR_RETURN(const int number, chosen_signal());
  return std::unique_ptr<LeaveSignal>(new LeaveSignal(member, number));
}

LeaveSignal::LeaveSignal(const Member* member, int number) {
  if (number == 0 || member == nullptr) return;
  note = {member->descriptor(),
          encode_note(LeavingNote{number == SIGTERM ? "SIGTERM" : "SIGUSR1"}),
          ::getpid(),
          {}};
  ::sigaction(number, nullptr, &note.before);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  if (::sigaction(number, &action, nullptr) == 0) number_ = number;
}

LeaveSignal::~LeaveSignal() {
  if (number_ != 0) ::sigaction(number_, &note.before, nullptr);
}

}  // namespace ronde::elastic
