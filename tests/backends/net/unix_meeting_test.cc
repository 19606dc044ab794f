#include "backends/net/unix_meeting.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "backends/net/gate.h"
#include "tests/backends/net/processes.h"

namespace ronde::net {
namespace {

/// Of one of two ranks that know their job's secret.
UnixMeetingArgs args_of(const std::string& job, int rank) {
  UnixMeetingArgs args;
  args.party.rank = rank;
  args.party.size = 2;
  args.party.context = job;
  args.party.self = {"1", "node1", "identity", "", ::getpid()};
  args.ranks = {0, 1};
  args.secret = Secret();
  args.timeout = std::chrono::seconds(10);
  return args;
}

/// Rank 0 up to where it has let a guest in; then it is gone.
int let_in_and_die(const std::string& job) {
  UnixMeetingArgs args = args_of(job, 0);
  args.party.keys = Keys::derive(*args.secret).value();
  Gate gate(args.party, make_greeting(std::nullopt));
  gate.listen(listen_on(meeting_point(args)).value());
  const auto event = gate.next(now() + std::chrono::seconds(10));
  RONDE_CHILD_REQUIRE(event.ok() && event->kind == GateEvent::Kind::kAdmitted);
  return 0;
}

TEST_CASE("a host that dies before it hands over the shared segment is named as failed") {
  const std::string job = unique_job_id();
  Processes processes;
  processes.start([&] { return let_in_and_die(job); });
  const auto met = meet_on_host(args_of(job, 1));
  CHECK(processes.wait_all() == all_good(1));
  CHECK(met.status().code() == Code::kRankFailure);
  REQUIRE(met.status().failed_rank());
  CHECK(met.status().failed_rank()->rank == 0);
  CHECK(met.status().message().find("went away while the ranks were meeting") != std::string::npos);
}

}  // namespace
}  // namespace ronde::net
