#include "tests/backends/net/data/tcp_ranks.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <numeric>

#include "backends/net/data/tcp_backend.h"
#include "tests/support/run_ranks.h"

namespace ronde::net {

std::vector<int> hosts_for(Wires wires, int ranks) {
  if (is_unix(wires)) return {};
  std::vector<int> hosts(static_cast<std::size_t>(ranks));
  std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

Listeners::Listeners(Wires wires, int ranks)
    : wires_(wires), ports_(static_cast<std::size_t>(ranks)) {
  if (is_unix(wires)) return;
  std::vector<std::string> interfaces{wires == Wires::kTcp6 ? "::1" : kInterfaces[0]};
  if (has_two_interfaces(wires)) interfaces.emplace_back(kInterfaces[1]);
  for (auto& ports : ports_) {
    auto& addresses = addresses_.emplace_back();
    for (const std::string& interface : interfaces) {
      ports.push_back(listen_on(interface_endpoint(interface).value()).value());
      addresses.push_back(local_endpoint(ports.back().get())->text());
    }
  }
}

std::unique_ptr<Backend> tcp_backend(Listeners& listeners, int rank,
                                     const TcpRankOptions& options) {
  TcpBackendArgs args;
  std::array<std::byte, Secret::kBytes> bytes{};
  bytes[0] = static_cast<std::byte>(options.secret_seed);
  args.secret = Secret(bytes);
  args.identity.rank = rank;
  args.identity.size = listeners.ranks();
  args.identity.context = "test";
  args.identity.keys = Keys::derive(args.secret).value();
  args.identity.self = {"1", "local", "local", "", ::getpid()};
  const Wires wires = listeners.wires();
  const bool sealed =
      wires == Wires::kSealed || wires == Wires::kSealedChaCha || wires == Wires::kHealingSealed;
  const bool heals = wires == Wires::kHealing || wires == Wires::kHealingSealed ||
                     wires == Wires::kTwoInterfacesHealing || wires == Wires::kHealingChecked ||
                     wires == Wires::kTwoInterfacesChecked;
  args.identity.checksums = wires >= Wires::kChecked;
  if (sealed) args.identity.encryption = Encryption::kOn;
  args.identity.has_aes = wires != Wires::kSealedChaCha;
  if (!is_unix(wires)) {
    args.manager = ConnectionManager::create(listeners.ranks(), options.budget).value();
    for (FileDescriptor& each : listeners.take(rank)) args.manager->listen(std::move(each));
    for (const auto& addresses : listeners.addresses()) {
      auto& endpoints = args.routes.addresses.emplace_back();
      for (const std::string& each : addresses) endpoints.push_back(parse_endpoint(each).value());
    }
  }
  if (has_two_interfaces(wires)) {
    for (const char* interface : kInterfaces)
      args.routes.interfaces.push_back(interface_endpoint(interface).value());
  }
  args.observers.counts = options.counts;
  args.link_timeout = options.link_timeout;
  args.timeout = options.timeout;
  args.late_after = options.late_after;
  if (heals) args.reconnect_limit = options.reconnect_limit;
  args.window_bytes = std::size_t{512} << 10;  // full at times
  return std::make_unique<TcpBackend>(std::move(args));
}

void with_transports(Wires wires, int ranks,
                     const std::function<void(int rank, Transport&, AbortToken&)>& body) {
  const test::LocalJob job(ranks, hosts_for(wires, ranks));
  Listeners listeners(wires, ranks);
  test::run_ranks(ranks, [&](int rank) {
    const auto backend = tcp_backend(listeners, rank);
    const auto exchange = job.exchange(rank);
    auto group = backend->open(job.group(rank), *exchange);
    REQUIRE_MESSAGE(group.ok(), group.status().to_string());
    body(rank, *(*group)->transport(), job.abort());
  });
}

}  // namespace ronde::net
