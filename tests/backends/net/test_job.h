// A job for tests: on one host, or on pretended hosts that are connected over the loopback
// interface.
#pragma once

#include <string>

#include "backends/net/factory.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"

namespace ronde::net {

/// Where the ranks of a test job run. kEncrypted: on two hosts.
enum class Layout { kOneHost, kTwoHosts, kEachAlone, kEncrypted };

/// Its name, for doctest's messages.
std::string name_of(Layout layout);

/// A job that no other run uses at the same time. Make it before the ranks are forked.
class TestJob {
 public:
  TestJob(int size, Layout layout, const std::string& address = "127.0.0.1");
  ~TestJob();
  TestJob(const TestJob&) = delete;
  TestJob& operator=(const TestJob&) = delete;

  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] int host_of(int rank) const noexcept;
  [[nodiscard]] Config config(int rank) const;
  [[nodiscard]] Result<JobLink> connect(int rank) const { return connect(config(rank)); }
  [[nodiscard]] Result<JobLink> connect(const Config& config, ConnectOptions options = {"1"}) const;

 private:
  const int size_;
  const Layout layout_;
  std::string id_;
  std::string rendezvous_;
  std::string secret_file_;
};

}  // namespace ronde::net
