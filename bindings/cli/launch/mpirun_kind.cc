#include "bindings/cli/launch/mpirun_kind.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "bindings/cli/launch/process.h"

namespace ronde {
namespace {

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

MpirunKind mpirun_kind_of(std::string_view version) {
  if (version.find("HYDRA") != std::string_view::npos) return MpirunKind::kMpich;
  constexpr std::string_view kOpenMpi = "(Open MPI) ";
  const std::size_t at = version.find(kOpenMpi);
  if (at == std::string_view::npos) return MpirunKind::kOpenMpi4;
  const std::string number(version.substr(at + kOpenMpi.size(), 4));
  return std::strtol(number.c_str(), nullptr, 10) < 5 ? MpirunKind::kOpenMpi4
                                                      : MpirunKind::kOpenMpi5;
}

Result<MpirunKind> installed_mpirun() {
  auto output = make_pipe();
  RONDE_RETURN_IF_ERROR(output.status());
  ChildSpec spec;
  spec.command = {"mpirun", "--version"};
  spec.death_signal = SIGKILL;  // Ctrl-C ends this process alone
  spec.output = output->write.get();
  const StartedChild child = start_child(spec);
  output->write.reset();
  if (child.pid < 0) {
    return Status(Code::kUnavailable,
                  child.failure.text +
                      ", which starts ranks that use MPI: install Open MPI or MPICH "
                      "(openmpi-bin in Debian and Ubuntu)");
  }
  const MpirunKind kind = mpirun_kind_of(read_all(output->read.get()));
  ::waitpid(child.pid, nullptr, 0);
  return kind;
}

}  // namespace ronde
