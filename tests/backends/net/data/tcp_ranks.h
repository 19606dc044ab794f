// A tcp backend for each rank of a group of threads, without joining a job: inside a pretended
// host over Unix sockets, between pretended hosts over the loopback interface.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/net/connection/socket.h"
#include "backends/net/mesh/connection_budget.h"
#include "core/ports/backend.h"
#include "tests/support/local_exchange.h"

namespace ronde::net {

/// kSealed and kSealedChaCha: TCP, encrypted, with and without instructions for AES. kHealing and
/// kHealingSealed: TCP with connections that heal, plain and encrypted. kTwoInterfaces: with two
/// network interfaces, and kTwoInterfacesHealing the same with connections that heal. kChecked,
/// kUnixChecked, kHealingChecked and kTwoInterfacesChecked: with checksums, the last heals.
enum class Wires {
  kUnix,
  kTcp,
  kTcp6,
  kSealed,
  kSealedChaCha,
  kHealing,
  kHealingSealed,
  kTwoInterfaces,
  kTwoInterfacesHealing,
  kChecked,
  kUnixChecked,
  kHealingChecked,
  kTwoInterfacesChecked
};

constexpr bool is_unix(Wires wires) {
  return wires == Wires::kUnix || wires == Wires::kUnixChecked;
}

/// The pretended interfaces of each rank.
inline constexpr const char* kInterfaces[] = {"127.0.0.1", "127.0.0.2"};
constexpr bool has_two_interfaces(Wires wires) {
  return wires == Wires::kTwoInterfaces || wires == Wires::kTwoInterfacesHealing ||
         wires == Wires::kTwoInterfacesChecked;
}

/// The time that connections which heal may be broken.
inline constexpr std::chrono::seconds kHealingLimit{20};

/// Hosts for ronde::test::LocalJob, so that a group of `ranks` uses these wires.
std::vector<int> hosts_for(Wires wires, int ranks);

/// Where the ranks of one job accept connections. Made before the ranks start.
class Listeners {
 public:
  Listeners(Wires wires, int ranks);

  [[nodiscard]] int ranks() const noexcept { return static_cast<int>(ports_.size()); }
  [[nodiscard]] Wires wires() const noexcept { return wires_; }
  /// By rank, then by interface.
  [[nodiscard]] const std::vector<std::vector<std::string>>& addresses() const noexcept {
    return addresses_;
  }
  /// Connections to the rank go to another address, which leads to it.
  void put_address(int rank, std::string address, std::size_t interface = 0) {
    addresses_[static_cast<std::size_t>(rank)][interface] = std::move(address);
  }
  /// The listeners of a rank, by interface, once.
  [[nodiscard]] std::vector<FileDescriptor> take(int rank) {
    return std::move(ports_[static_cast<std::size_t>(rank)]);
  }

 private:
  Wires wires_;
  std::vector<std::vector<FileDescriptor>> ports_;  // empty for Unix sockets
  std::vector<std::vector<std::string>> addresses_;
};

/// Facts that differ from those of most tests.
struct TcpRankOptions {
  int secret_seed = 1;  ///< Tells apart jobs that must not let each other in.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  std::chrono::milliseconds late_after{1000};                 ///< As TcpBackendArgs::late_after.
  std::chrono::milliseconds reconnect_limit = kHealingLimit;  ///< Where the wires heal.
  std::chrono::milliseconds link_timeout{10'000};      ///< For an interface where they do not.
  std::shared_ptr<ConnectionBudget> budget = nullptr;  ///< Limits connections over TCP.
  std::shared_ptr<ConnectionCounts> counts = nullptr;  ///< Of outages.
};

/// The backend of one rank.
std::unique_ptr<Backend> tcp_backend(Listeners& listeners, int rank,
                                     const TcpRankOptions& options = {});

/// Opens a group of `ranks` threads and calls `body` in each.
void with_transports(Wires wires, int ranks,
                     const std::function<void(int rank, Transport&, AbortToken&)>& body);

}  // namespace ronde::net
