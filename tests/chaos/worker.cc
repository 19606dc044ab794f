// One rank of a chaos job: `ronde_chaos_worker MODE NAME=NUMBER...`. What to do is in its
// arguments, who it is in the environment, as for any program that uses Ronde.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <thread>

#include "tests/chaos/events.h"
#include "tests/chaos/floor.h"
#include "tests/chaos/mismatch.h"
#include "tests/chaos/schedule.h"

namespace ronde::chaos {
namespace {

/// NAME=NUMBER arguments; 0 where one is not given.
std::map<std::string, std::int64_t> arguments;

std::int64_t argument(const std::string& name) { return arguments[name]; }

/// For the signal handler and for faults.
Job* current_job = nullptr;

void on_signal(int) {
  if (current_job != nullptr) current_job->interrupt();
}

enum Fault : std::int64_t { kNone, kSegfault, kAbort, kThrow, kExit, kLeave };

/// Ends this rank in the middle of its fault step, as `fault` says.
void fall(std::int64_t fault) {
  say("falls");
  switch (fault) {
    case kSegfault:
      ::raise(SIGSEGV);
      return;
    case kAbort:
      std::abort();
    case kThrow:
      throw std::runtime_error("thrown by the test");
    case kExit:
      std::_Exit(7);
    case kLeave:
      current_job->shutdown();
      return;
    default:
      return;
  }
}

int own_rank = 0;

void midway(int step) {
  const bool falls = argument("fault") != kNone && argument("victim") == own_rank;
  if (falls && argument("fault_step") == step) fall(argument("fault"));
}

/// True if any rank wants to end. All ranks ask after each step, so all end at the same one.
bool agreed_to_end(Job& job, std::chrono::steady_clock::time_point end) {
  std::vector<std::int32_t> over{std::chrono::steady_clock::now() >= end ? 1 : 0};
  job.allreduce("over", tensor(over), {.op = ReduceOp::kMax});
  return over[0] != 0;
}

void take_steps(Job& job) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(argument("run_ms"));
  const auto elements = std::max<std::int64_t>(argument("elements"), 1);
  const auto seed = static_cast<std::uint64_t>(argument("seed"));
  for (int step = 0;; ++step) {
    run_step(job, seed, step, elements, midway);
    if (argument("tell_every") > 0 && step % argument("tell_every") == 0)
      say("step", {{"step", step}});
    if (argument("run_ms") > 0 ? agreed_to_end(job, end) : step + 1 == argument("steps")) return;
  }
}

/// The survivors of `lost` form a smaller job, in the same processes.
void recover(int lost, int rank, int size) {
  const int smaller = rank - (rank > lost ? 1 : 0);
  // NOLINTBEGIN(concurrency-mt-unsafe): no job, and so no other thread, until init()
  ::setenv("RONDE_RANK", std::to_string(smaller).c_str(), 1);
  ::setenv("RONDE_SIZE", std::to_string(size - 1).c_str(), 1);
  ::setenv("RONDE_JOB_ID", (std::string(std::getenv("RONDE_JOB_ID")) + "-again").c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
  Job job = init();
  for (int i = 0; i < 3; ++i) check_sum(job, "again");
  say("recovered");
  job.shutdown();
}

/// Takes this rank's steps; returns the rank that was lost meanwhile.
std::optional<int> work(Job& job) {
  own_rank = job.rank();
  set_event_rank(own_rank);
  current_job = &job;
  say("ready");
  std::optional<int> lost;
  try {
    take_steps(job);
    say("done");
  } catch (const RankFailure& failure) {
    say_failed(failure);
    lost = failure.rank();
  } catch (const Corrupted& failure) {
    say_failed(failure);
  }
  job.shutdown();
  say("left");
  return lost;
}

int steps_mode() {
  std::optional<Job> job;
  try {
    job.emplace(init());
  } catch (const RankFailure& failure) {  // it fell while this rank was still on its way in
    say_failed(failure);
    return 0;
  }
  const int size = job->size();
  const std::optional<int> lost = work(*job);
  job.reset();
  if (lost && argument("recover") != 0) recover(*lost, own_rank, size);
  return 0;
}

int mismatch_mode() {
  Job job = init();
  set_event_rank(job.rank());
  say("ready");
  const auto seed = static_cast<std::uint64_t>(argument("seed"));
  for (int i = 0; i < argument("count"); ++i) {
    disagree(job, seed, i);
    check_sum(job, "after");
  }
  disagree_about_sets(job);
  check_sum(job, "after sets");
  submit_twice(job, static_cast<int>(seed % static_cast<std::uint64_t>(job.size())));
  check_sum(job, "after twice");
  say("done");
  job.shutdown();
  say("left");
  return 0;
}

/// All ranks but the victim submit "late"; the victim does so after `late_ms`, or never.
int stall_mode() {
  Job job = init();
  set_event_rank(job.rank());
  say("ready");
  std::vector<float> values{1.0F};
  const bool late = job.rank() == argument("victim");
  if (late) std::this_thread::sleep_for(std::chrono::milliseconds(argument("late_ms")));
  try {
    if (!late || argument("never") == 0) {
      job.allreduce("late", tensor(values), {.op = ReduceOp::kSum});
      if (values[0] != static_cast<float>(job.size())) throw WrongResult("late");
      say("passed");
    }
  } catch (const Stalled& error) {
    say_failed(error);
  }
  check_sum(job, "after");
  say("done");
  job.shutdown();
  return 0;
}

/// Waits for what never comes, until a signal interrupts it.
int interrupt_mode() {
  Job job = init();
  set_event_rank(job.rank());
  current_job = &job;
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, on_signal);
  std::vector<float> values{1.0F};
  if (job.rank() == argument("victim")) {
    const Pending pending = job.allreduce_async("alone", tensor(values), {.op = ReduceOp::kSum});
    say("ready");
    try {
      pending.wait();
    } catch (const Interrupted&) {
      say("interrupted");
    }
    check_sum(job, "go");
    pending.wait();
  } else {
    say("ready");
    check_sum(job, "go");
    job.allreduce("alone", tensor(values), {.op = ReduceOp::kSum});
  }
  if (values[0] != static_cast<float>(job.size())) throw WrongResult("alone");
  say("done");
  current_job = nullptr;
  job.shutdown();
  return 0;
}

/// Sums 16 MB over and over, until a rank dies.
int reduce_mode() {
  constexpr std::size_t kElements = std::size_t{4} << 20;
  Job job = init();
  set_event_rank(job.rank());
  std::vector<float> values(kElements, 1.0F);
  say("ready");
  for (;;) job.allreduce("gradient", tensor(values), {.op = ReduceOp::kMax});
}

/// Sums a few numbers over and over, for `run_ms` or until a rank is lost.
int sums_mode() {
  Job job = init();
  set_event_rank(job.rank());
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(argument("run_ms"));
  say("ready");
  check_sum(job, "first");
  say("first");
  do {
    check_sum(job, "next");
  } while (!agreed_to_end(job, end));
  job.shutdown();
  say("left");
  return 0;
}

std::int64_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

/// Prints the resources that this process holds now. Free memory goes to the kernel first: how much
/// of it the allocator keeps is chance.
void say_holdings(std::int64_t life) {
  ::malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  say("life", {{"life", life},
               {"descriptors", entries("/proc/self/fd")},
               {"threads", entries("/proc/self/task")},
               {"resident_kib", resident * ::sysconf(_SC_PAGESIZE) / 1024}});
}

/// Joins the job and leaves it, over and over.
int lives_mode() {
  const std::int64_t count = argument("count");
  for (std::int64_t life = 1; life <= count; ++life) {
    Job job = init();
    check_sum(job, "life");
    job.shutdown();
    if (life % std::max<std::int64_t>(count / 10, 1) == 0) say_holdings(life);
  }
  say("done");
  return 0;
}

int run(const std::string& mode) {
  if (mode == "floor") {
    return watch_children(static_cast<int>(argument("size")), argument("hold_mb"));
  }
  hold_memory(argument("hold_mb"));
  if (mode == "steps") return steps_mode();
  if (mode == "mismatch") return mismatch_mode();
  if (mode == "stall") return stall_mode();
  if (mode == "interrupt") return interrupt_mode();
  if (mode == "reduce") return reduce_mode();
  if (mode == "sums") return sums_mode();
  if (mode == "lives") return lives_mode();
  std::cerr << "unknown mode " << mode << '\n';
  return 2;
}

}  // namespace
}  // namespace ronde::chaos

int main(int argc, char** argv) {
  using namespace ronde::chaos;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t equals = text.find('=');
    arguments[text.substr(0, equals)] = std::stoll(text.substr(equals + 1));
  }
  const char* rank = std::getenv("RONDE_RANK");  // NOLINT(concurrency-mt-unsafe): one thread yet
  if (rank != nullptr) set_event_rank(std::atoi(rank));
  say("start");
  try {
    return run(argc > 1 ? argv[1] : "");
  } catch (const ronde::Error& error) {
    say_failed(error);
    return 3;
  } catch (const WrongResult& error) {
    say("wrong", {{"what", error.what()}});
    return 4;
  }
}
