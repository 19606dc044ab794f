#include "backends/net/identity.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace ronde::net {
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

}  // namespace

std::string host_identity() {
  return fmt::format("{} {} {} {} {}", boot_id(), name_space("net"), name_space("ipc"),
                     name_space("pid"), ::geteuid());
}

}  // namespace ronde::net
