#include "tests/backends/net/test_job.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <random>

#include "backends/net/connection/secret.h"
#include "backends/net/connection/socket.h"
#include "backends/net/factory.h"
#include "core/base/bytes.h"
#include "tests/backends/net/processes.h"

namespace ronde::net {
namespace {

/// A port that was free a moment ago, below those that the kernel gives to outgoing connections:
/// nobody takes it unasked.
std::string free_port(const std::string& address) {
  std::random_device random;
  std::uniform_int_distribution<std::uint16_t> pick(10'000, 19'999);
  for (int attempt = 0; attempt < 200; ++attempt) {
    const Endpoint endpoint = interface_endpoint(address).value().with_port(pick(random));
    if (listen_on(endpoint).ok()) return endpoint.text();
  }
  return {};
}

std::string write_secret() {
  std::string path = "/tmp/ronde-test-XXXXXX";
  const FileDescriptor fd(::mkstemp(path.data()));
  const std::string text = hex(Secret::random()->bytes());
  if (::write(fd.get(), text.data(), text.size()) < 0) return {};
  return path;
}

}  // namespace

std::string name_of(Layout layout) {
  switch (layout) {
    case Layout::kOneHost:
      return "one host";
    case Layout::kTwoHosts:
      return "two hosts";
    case Layout::kEncrypted:
      return "two hosts, encrypted";
    case Layout::kEachAlone:
      break;
  }
  return "each rank on its own host";
}

TestJob::TestJob(int size, Layout layout, const std::string& address)
    : size_(size), layout_(layout), id_(unique_job_id()) {
  if (layout == Layout::kOneHost) return;
  rendezvous_ = free_port(address);
  secret_file_ = write_secret();
}

TestJob::~TestJob() {
  if (!secret_file_.empty()) ::unlink(secret_file_.c_str());
}

int TestJob::host_of(int rank) const noexcept {
  return layout_ == Layout::kOneHost ? 0 : layout_ == Layout::kEachAlone ? rank : rank % 2;
}

Config TestJob::config(int rank) const {
  Config config = rank_config(id_, rank, size_);
  config.rendezvous = rendezvous_;
  config.secret_file = secret_file_;
  if (layout_ == Layout::kEncrypted) config.encryption = "on";
  return config;
}

Result<JobLink> TestJob::connect(const Config& config, ConnectOptions options) const {
  options.host_name = fmt::format("node{}", host_of(config.rank));
  options.host_identity = options.host_name + id_;
  return connect_job(config, options);
}

}  // namespace ronde::net
