// Two ranks as threads, with relays on the path between them.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "core/base/abort.h"
#include "core/ports/transport.h"
#include "tests/backends/net/data/relay.h"
#include "tests/backends/net/data/tcp_ranks.h"
#include "tests/support/local_exchange.h"
#include "tests/support/run_ranks.h"

namespace ronde::net {

/// A test puts the relays where it needs them.
struct RelayedPair {
  RelayedPair(Wires wires, TcpRankOptions the_options)
      : options(std::move(the_options)), listeners(wires, 2) {}

  /// Lets rank 1's data to an interface of rank 0 pass a relay.
  Relay& put_relay(std::size_t interface = 0) {
    Relay& relay = relays[interface].emplace(listeners.addresses()[0][interface]);
    listeners.put_address(0, relay.address(), interface);
    return relay;
  }

  /// Calls `body` in the thread of each rank.
  void run(const std::function<void(Transport&, AbortToken&)>& body) {
    test::run_ranks(2, [&](int rank) {
      const auto backend = tcp_backend(listeners, rank, options);
      const auto group = backend->open(job.group(rank), *job.exchange(rank)).value();
      body(*group->transport(), job.abort());
    });
  }

  TcpRankOptions options;
  test::LocalJob job{2, {0, 1}};
  Listeners listeners;
  std::array<std::optional<Relay>, 2> relays;
};

}  // namespace ronde::net
