#include "bindings/cli/launch/signal_source.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace ronde {

SignalSource::SignalSource() {
  ::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) {
    ::sigaddset(&set, signal);
  }
  ::sigprocmask(SIG_BLOCK, &set, &before_);
  fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalSource::~SignalSource() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> SignalSource::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace ronde
