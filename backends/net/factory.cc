#include "backends/net/factory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "backends/net/connect_ranks.h"
#include "core/base/os/interfaces.h"

namespace ronde {
namespace {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text;
}

std::string name_space(const char* kind) {
  struct stat info {};
  const std::string path = fmt::format("/proc/self/ns/{}", kind);
  return ::stat(path.c_str(), &info) == 0 ? fmt::format("{}:{}", kind, info.st_ino) : kind;
}

/// Equal for two processes if and only if they can share memory and abstract Unix sockets: boot id,
/// namespaces and user.
std::string host_identity() {
  return fmt::format("{} {} {} {} {}", boot_id(), name_space("net"), name_space("ipc"),
                     name_space("pid"), ::geteuid());
}

}  // namespace

Result<JobLink> connect_job(const Config& config, const std::string& version,
                            std::shared_ptr<AbortToken> abort) {
  return net::connect_ranks(config, {version, host_name(), host_identity(), std::move(abort)});
}

}  // namespace ronde
