#include "backends/net/meet/unix_rendezvous.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "backends/net/meet/handover.h"
#include "backends/net/mesh/connector.h"
#include "tests/backends/net/processes.h"

namespace ronde::net {
namespace {

/// Of one of two ranks that know their job's secret.
UnixRendezvousArgs args_of(const std::string& job, int rank) {
  UnixRendezvousArgs args;
  args.identity.rank = rank;
  args.identity.size = 2;
  args.identity.context = job;
  args.identity.self = {"1", "node1", "identity", "", ::getpid()};
  args.ranks = {0, 1};
  args.secret = Secret();
  args.timeout = std::chrono::seconds(10);
  return args;
}

/// Rank 0 up to where it has let a guest in; then it is gone.
int let_in_and_die(const std::string& job) {
  UnixRendezvousArgs args = args_of(job, 0);
  args.identity.keys = Keys::derive(*args.secret).value();
  Connector connector(args.identity, make_greeting(std::nullopt));
  connector.listen(listen_on(rendezvous_endpoint(args)).value());
  const auto event = connector.next(now() + std::chrono::seconds(10));
  RONDE_CHILD_REQUIRE(event.ok() && event->kind == ConnectorEvent::Kind::kAdmitted);
  return 0;
}

TEST_CASE("a host that dies before it hands over the shared segment is named as failed") {
  const std::string job = unique_job_id();
  Processes processes;
  processes.start([&] { return let_in_and_die(job); });
  const auto met = rendezvous_on_host(args_of(job, 1));
  CHECK(processes.wait_all() == all_good(1));
  CHECK(met.status().code() == Code::kRankFailure);
  REQUIRE(met.status().failed_rank());
  CHECK(met.status().failed_rank()->rank == 0);
  CHECK(met.status().message().find("went away during the rendezvous") != std::string::npos);
}

}  // namespace
}  // namespace ronde::net
