// With a real launcher on the other end: tests/chaos.
#include "bindings/elastic/member.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tests/bindings/elastic/launcher_end.h"
#include "tests/support/contains.h"

namespace ronde::elastic {
namespace {

using test::contains;
using test::LauncherEnd;
using test::place;

WaitOptions within(std::chrono::milliseconds limit) {
  WaitOptions options;
  options.deadline = now() + limit;
  return options;
}
constexpr std::chrono::seconds kAmple{20};

TEST_CASE(
    "member: a ready worker is given its place, then tells the epoch when it is ready again") {
  LauncherEnd launcher;
  Member member(launcher.worker_end(), 7);
  CHECK(member.worker() == 7);
  std::thread answering([&] {
    const auto ready = launcher.receive<ReadyNote>();
    CHECK(ready.last_epoch == 0);
    CHECK(!ready.holds_state);
    launcher.send(place(3, 1, 2));
  });
  const auto answer = member.next_epoch(within(kAmple));
  answering.join();
  REQUIRE(answer.ok());
  const auto& note = std::get<EpochNote>(*answer);
  CHECK(note.rank == 1);
  CHECK(note.workers.size() == 2);
  CHECK(member.epoch() == 3);

  launcher.send(DismissedNote{false, "the job is done"});
  // The dismissal is there before the worker is ready: it needs no question.
  CHECK(std::get<DismissedNote>(*member.next_epoch(within(kAmple))).why == "the job is done");
  CHECK(launcher.quiet());
  REQUIRE(member.hold_state().ok());
  CHECK(launcher.receive<HoldsNote>().holds_state);
  member.failed(std::string(10'000, 'x'), 1);
  CHECK(member.next_epoch(within(std::chrono::milliseconds(1))).status().code() == Code::kTimeout);
  const auto ready = launcher.receive<ReadyNote>();
  CHECK(ready.last_epoch == 3);
  CHECK(ready.holds_state);
  CHECK(ready.suspects == std::vector<WorkerId>{2});
  CHECK(ready.why.size() == 4096);
}

/// In epoch 2 as rank 1 of workers 1, 2 and 3.
void join_epoch(LauncherEnd& launcher, Member& member) {
  launcher.send(place(2, 1, 3));
  REQUIRE(member.next_epoch(within(kAmple)).ok());
  member.began();
}

/// Makes the member wait without an answer. Returns the note that it sends.
ReadyNote told(LauncherEnd& launcher, Member& member) {
  CHECK(member.next_epoch(within(std::chrono::milliseconds(1))).status().code() == Code::kTimeout);
  return launcher.receive<ReadyNote>();
}

TEST_CASE("member: the launcher learns the first cause of a failure, and all lost workers") {
  LauncherEnd launcher;
  Member member(launcher.worker_end(), 2);
  member.failed("it has no place yet", 0);
  CHECK(told(launcher, member).suspects.empty());
  join_epoch(launcher, member);
  member.failed("rank 2 was killed", 2);
  member.failed("rank 0 does not answer", 0);
  member.failed("it was interrupted", -1);
  for (int again = 0; again < 2; ++again) {  // until there is an answer
    const ReadyNote ready = told(launcher, member);
    CHECK(ready.began);
    CHECK(ready.why == "rank 2 was killed");
    CHECK(ready.suspects == std::vector<WorkerId>{1, 3});
  }
}

TEST_CASE("member: each epoch begins without the failures of the one before") {
  LauncherEnd launcher;
  Member member(launcher.worker_end(), 2);
  join_epoch(launcher, member);
  member.failed("rank 2 was killed", 2);
  launcher.send(place(3, 0, 2));
  REQUIRE(member.next_epoch(within(kAmple)).ok());
  const ReadyNote ready = told(launcher, member);
  CHECK_FALSE(ready.began);
  CHECK(ready.why.empty());
  CHECK(ready.suspects.empty());
  CHECK(member.place()->epoch == 3);
}

TEST_CASE("member: the job can go on from copies or from a checkpoint") {
  LauncherEnd launcher;
  CommitStore copies;
  REQUIRE(copies.begin(std::vector<std::size_t>{8}).ok());
  REQUIRE(copies.commit(3).ok());
  Member member(launcher.worker_end(), 2, std::move(copies));
  CHECK(told(launcher, member).can_resume);
  CHECK(member.take_copies().steps() == std::vector<std::uint64_t>{3});
  CHECK(told(launcher, member).can_resume);
  member.end_adoption();
  CHECK_FALSE(told(launcher, member).can_resume);
  member.can_load(true);
  CHECK(told(launcher, member).can_resume);
  CHECK(member.place() == nullptr);
}

TEST_CASE("member: an interrupted wait leaves the answer to the next one") {
  LauncherEnd launcher;
  Member member(launcher.worker_end(), 1);
  WaitOptions options = within(kAmple);
  options.interrupt = [] { return Status(Code::kInterrupted, "Ctrl-C"); };
  CHECK(member.next_epoch(options).status().code() == Code::kInterrupted);
  launcher.receive<ReadyNote>();
  launcher.send(place(1, 0, 1));
  CHECK(std::get<EpochNote>(*member.next_epoch(within(kAmple))).epoch == 1);
  CHECK(launcher.quiet());
}

TEST_CASE("member: changes are those of the current epoch, the newest") {
  LauncherEnd launcher;
  Member member(launcher.worker_end(), 1);
  CHECK(member.changes()->serial == 0);
  launcher.send(place(2, 0, 1));
  REQUIRE(member.next_epoch(within(kAmple)).ok());
  CHECK(member.changes()->serial == 0);
  launcher.send(ChangedNote{1, 4, Change::kAdded});
  CHECK(member.changes()->serial == 0);
  launcher.send(ChangedNote{2, 5, Change::kAdded});
  launcher.send(ChangedNote{2, 6, Change::kMixed});
  CHECK(member.changes()->serial == 6);
  CHECK(member.changes()->change == Change::kMixed);
  launcher.send(place(3, 0, 1));
  REQUIRE(member.next_epoch(within(kAmple)).ok());
  CHECK(member.changes()->serial == 0);
}

TEST_CASE("member: sends what it holds, that it leaves, and that it has finished") {
  LauncherEnd launcher;
  Member member(launcher.worker_end(), 1);
  launcher.send(place(2, 0, 1));
  REQUIRE(member.next_epoch(within(kAmple)).ok());
  CHECK(member.hold_state().ok());
  CHECK(member.hold_state().ok());  // told once
  CHECK(member.send(LeavingNote{"SIGTERM"}).ok());
  CHECK(member.send_finished().ok());
  CHECK(launcher.receive<HoldsNote>().holds_state);
  CHECK(launcher.receive<LeavingNote>().why == "SIGTERM");
  CHECK(launcher.receive<FinishedNote>().epoch == 2);
}

TEST_CASE("member: a void epoch cancels the start of its job, and of no other") {
  LauncherEnd launcher;
  Member member(launcher.worker_end(), 1);
  CHECK(!member.cancel_source("job-2").check);
  launcher.send(place(2, 0, 2));
  REQUIRE(member.next_epoch(within(kAmple)).ok());
  CHECK(!member.cancel_source("another").check);
  const CancelSource cancel = member.cancel_source("job-2");
  launcher.send(VoidNote{1, "an old one"});
  CHECK(cancel.status().ok());
  launcher.send(VoidNote{2, "worker 2 was killed"});
  pollfd polled{cancel.fd, POLLIN, 0};
  REQUIRE(::poll(&polled, 1, 20'000) == 1);
  for (int again = 0; again < 2; ++again) {
    CHECK(cancel.status().code() == Code::kAborted);
    CHECK(cancel.status().message() == "epoch 2 cannot begin: worker 2 was killed");
  }
  launcher.send(place(3, 0, 1));
  REQUIRE(member.next_epoch(within(kAmple)).ok());
  CHECK(member.cancel_source("job-3").status().ok());
  launcher.close();
  CHECK(member.cancel_source("job-3").status().code() == Code::kUnavailable);
}

TEST_CASE("member: without a launcher all calls fail, also one that waits") {
  LauncherEnd launcher;
  Member member(launcher.worker_end(), 1);
  std::thread ending([&] {
    launcher.receive<ReadyNote>();
    launcher.close();
  });
  const Status status = member.next_epoch(within(kAmple)).status();
  ending.join();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(contains(status.message(), "the launcher of this elastic job is gone"));
  CHECK(member.changes().status().code() == Code::kUnavailable);
  CHECK(member.hold_state().code() == Code::kUnavailable);
}

TEST_CASE("member: a note that came before the launcher's end is still taken") {
  LauncherEnd launcher;
  Member member(launcher.worker_end(), 1);
  launcher.send(DismissedNote{true, "too few workers"});
  launcher.close();
  CHECK(member.changes().status().code() == Code::kUnavailable);
  CHECK(std::get<DismissedNote>(*member.next_epoch(within(kAmple))).why == "too few workers");
  CHECK(member.next_epoch(within(kAmple)).status().code() == Code::kUnavailable);
}

TEST_CASE("member: notes that cannot be read are errors, not crashes") {
  const std::string short_note = encode_note(place(1, 0, 1)).substr(0, 9);
  EpochNote bad_rank = place(1, 0, 1);
  bad_rank.rank = 1;
  for (const std::string& message :
       {std::string("\x0a"), short_note, encode_note(bad_rank), encode_note(HoldsNote{})}) {
    LauncherEnd launcher;
    Member member(launcher.worker_end(), 1);
    launcher.send_raw(message);
    CHECK(contains(member.changes().status().message(), "cannot be read"));
    CHECK(member.changes().status().code() == Code::kInvalidArgument);
  }
}

TEST_CASE("member: settings come before the environment's, the secret by a descriptor") {
  LauncherEnd launcher;
  Member member(launcher.worker_end(), 1);
  Config base;
  base.rendezvous = base.rendezvous_tree = "old:1";
  const auto settings = member.settings(place(4, 1, 3));
  REQUIRE(settings.ok());
  const auto config = config_with(base, *settings);
  REQUIRE(config.ok());
  CHECK(config->rank == 1);
  CHECK(config->size == 3);
  CHECK(config->job_id == "job-4");
  CHECK(config->rendezvous.empty());
  CHECK(config->rendezvous_tree.empty());
  std::string secret(64, '\0');
  CHECK(::pread(config->secret_fd, secret.data(), secret.size(), 0) == 64);
  CHECK(secret == std::string(64, 'a'));
  for (const auto& [name, value] : *settings) CHECK(!contains(value, "aaaa"));
}

/// In a child, as a process has one member.
template <typename Body>
int status_of_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void set_variable(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
}

TEST_CASE("member: the process's is found by the environment, and a forked child has none") {
  LauncherEnd launcher;
  const FileDescriptor worker_end = launcher.worker_end();
  CHECK(status_of_child([&] {
          set_variable(kNotesVariable, std::to_string(worker_end.get()));
          set_variable(kWorkerVariable, "12");
          const auto member = Member::of_process();
          if (!member.ok() || *member == nullptr || (*member)->worker() != 12) return 1;
          return status_of_child([] { return *Member::of_process() == nullptr ? 0 : 2; });
        }) == 0);
  CHECK(status_of_child([] { return *Member::of_process() == nullptr ? 0 : 1; }) == 0);
}

TEST_CASE("member: a descriptor that was closed on the way is an error that says so") {
  const Pipe pipe = make_pipe().value();
  for (const std::string& value :
       {std::to_string(pipe.read.get()), std::string("987654"), std::string("x")}) {
    CHECK(status_of_child([&] {
            set_variable(kNotesVariable, value);
            const Status status = Member::of_process().status();
            return contains(status.message(), "RONDE_ELASTIC_FD=") ? 0 : 1;
          }) == 0);
  }
}

}  // namespace
}  // namespace ronde::elastic
