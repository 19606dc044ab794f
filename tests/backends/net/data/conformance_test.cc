// The conformance suite over Ronde's own connections: inside a host over Unix sockets, between
// hosts over TCP.
#include "tests/conformance/conformance.h"

#include "tests/backends/net/data/tcp_ranks.h"
#include "tests/support/local_exchange.h"
#include "tests/support/plain_kernels.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {
namespace {

template <net::Wires wires>
struct Fixture : ConformanceFixture {
  void run(int ranks, const RankBody& body) override {
    const LocalJob job(ranks, net::hosts_for(wires, ranks));
    net::Listeners listeners(wires, ranks);
    run_ranks(ranks, [&](int rank) {
      const auto backend = net::tcp_backend(listeners, rank);
      const auto exchange = job.exchange(rank);
      body(rank, *backend, job.group(rank), *exchange);
    });
  }
};
using UnixFixture = Fixture<net::Wires::kUnix>;
using TcpFixture = Fixture<net::Wires::kTcp>;
using SealedFixture = Fixture<net::Wires::kSealed>;
using ChaChaFixture = Fixture<net::Wires::kSealedChaCha>;
using HealingFixture = Fixture<net::Wires::kHealing>;
using TwoInterfacesFixture = Fixture<net::Wires::kTwoInterfaces>;
using HealingSealedFixture = Fixture<net::Wires::kHealingSealed>;
using CheckedFixture = Fixture<net::Wires::kChecked>;
using UnixCheckedFixture = Fixture<net::Wires::kUnixChecked>;
using HealingCheckedFixture = Fixture<net::Wires::kHealingChecked>;
using TwoInterfacesCheckedFixture = Fixture<net::Wires::kTwoInterfacesChecked>;

}  // namespace

RONDE_CONFORMANCE("tcp, one host", UnixFixture)
RONDE_CONFORMANCE("tcp, between hosts", TcpFixture)
RONDE_CONFORMANCE("tcp, between hosts, encrypted", SealedFixture)
RONDE_CONFORMANCE("tcp, between hosts, encrypted without AES instructions", ChaChaFixture)
RONDE_CONFORMANCE("tcp, between hosts, healing", HealingFixture)
RONDE_CONFORMANCE("tcp, between hosts, healing, encrypted", HealingSealedFixture)
RONDE_CONFORMANCE("tcp, between hosts, over two interfaces", TwoInterfacesFixture)
RONDE_CONFORMANCE("tcp, between hosts, checksums", CheckedFixture)
RONDE_CONFORMANCE("tcp, one host, checksums", UnixCheckedFixture)
RONDE_CONFORMANCE("tcp, between hosts, healing, checksums", HealingCheckedFixture)
RONDE_CONFORMANCE("tcp, over two interfaces, healing, checksums", TwoInterfacesCheckedFixture)
RONDE_HOST_CONFORMANCE("tcp, one host", UnixFixture)
RONDE_HOST_CONFORMANCE("tcp, between hosts", TcpFixture)

}  // namespace ronde::test
