// A runtime returns its descriptors, threads and memory; a forked child gets none.
#include <doctest/doctest.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/runtime.h"
#include "tests/backends/net/processes.h"
#include "tests/bindings/runtime/sums.h"

namespace ronde {
namespace {

using net::all_good;
using net::Processes;
using net::rank_config;
using net::run_ranks;
using net::unique_job_id;

/// Sanitizers keep freed memory for a while on purpose; the release build counts it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsGivenBack = false;
#elif defined(__has_feature)
constexpr bool kMemoryIsGivenBack =
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kMemoryIsGivenBack = true;
#endif

/// The resources that this process holds now.
struct Holdings {
  long descriptors = 0;
  long threads = 0;
  long allocated_kb = 0;
  long resident_kb = 0;
};

long entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

/// Free memory goes to the kernel first: how much of it the allocator keeps is chance.
Holdings holdings() {
  ::malloc_trim(0);
  const struct mallinfo2 heap = ::mallinfo2();
  std::ifstream file("/proc/self/statm");
  long total = 0;
  long resident = 0;
  file >> total >> resident;
  return {entries("/proc/self/fd"), entries("/proc/self/task"),
          static_cast<long>((heap.uordblks + heap.hblkhd) / 1024),
          resident * ::sysconf(_SC_PAGESIZE) / 1024};
}

/// One life of one rank, on a data plane.
bool live(const std::string& job, const std::string& backend, int rank, int size) {
  Config config = rank_config(job, rank, size);
  config.backend = backend;
  auto runtime = Runtime::create(config);
  if (!runtime.ok()) return false;
  std::vector<float> values(1000, 1.0F);
  return sum(**runtime, kGlobalSet, "w", values).ok() && values[999] == static_cast<float>(size);
}

int live_often(const std::string& job, const std::string& backend, int rank) {
  constexpr int kLives = 150;
  Holdings before;
  for (int i = 0; i < kLives; ++i) {
    if (i == kLives / 3) before = holdings();
    RONDE_CHILD_REQUIRE(live(job + "-" + std::to_string(i), backend, rank, 2));
  }
  const Holdings after = holdings();
  std::fprintf(stderr,
               "%s rank %d: fds %ld -> %ld, threads %ld -> %ld, allocated %ld -> %ld, "
               "resident %ld -> %ld KiB\n",
               backend.c_str(), rank, before.descriptors, after.descriptors, before.threads,
               after.threads, before.allocated_kb, after.allocated_kb, before.resident_kb,
               after.resident_kb);
  RONDE_CHILD_REQUIRE(after.descriptors == before.descriptors);
  RONDE_CHILD_REQUIRE(after.threads == before.threads);
  RONDE_CHILD_REQUIRE(!kMemoryIsGivenBack || after.allocated_kb < before.allocated_kb + 128);
  RONDE_CHILD_REQUIRE(!kMemoryIsGivenBack || after.resident_kb < before.resident_kb + 2048);
  return 0;
}

TEST_CASE("Runtime: init and shutdown 150 times leave no descriptor, thread or memory behind") {
  for (const std::string backend : {"shm", "tcp"}) {
    CAPTURE(backend);
    const std::string job = unique_job_id();
    CHECK(run_ranks(2, [&](int rank) { return live_often(job, backend, rank); }) == all_good(2));
  }
}

TEST_CASE("Runtime: two live in one process, each with its own sums") {
  const std::string one = unique_job_id();
  const std::string two = unique_job_id();
  CHECK(run_ranks(2, [&](int rank) {
          auto first = Runtime::create(rank_config(one, rank, 2));
          auto second = Runtime::create(rank_config(two, 1 - rank, 2));
          RONDE_CHILD_REQUIRE(first.ok() && second.ok());
          for (int i = 0; i < 50; ++i) {
            std::vector<float> a{1.0F};
            std::vector<float> b{10.0F};
            RONDE_CHILD_REQUIRE(sum(**first, kGlobalSet, "w", a).ok() && a[0] == 2.0F);
            RONDE_CHILD_REQUIRE(sum(**second, kGlobalSet, "w", b).ok() && b[0] == 20.0F);
          }
          (*first)->shutdown();
          std::vector<float> b{10.0F};
          RONDE_CHILD_REQUIRE(sum(**second, kGlobalSet, "w", b).ok() && b[0] == 20.0F);
          return 0;
        }) == all_good(2));
}

/// In a forked child: every call fails at once, and ending the runtime harms nobody.
int use_after_fork(std::unique_ptr<Runtime>& runtime, RawGroup& group) {
  std::vector<float> values{1.0F};
  const auto refused = [](const Status& status) {
    return status.code() == Code::kNotInitialized &&
           status.message().find("forked") != std::string::npos;
  };
  RONDE_CHILD_REQUIRE(refused(sum(*runtime, kGlobalSet, "w", values)));
  RONDE_CHILD_REQUIRE(refused(runtime->process_sets().add({0, 1}).status()));
  RONDE_CHILD_REQUIRE(refused(runtime->groups().open({0, 1}).status()));
  RONDE_CHILD_REQUIRE(refused(runtime->operations().send(1, 0, {}).status()));
  RONDE_CHILD_REQUIRE(refused(group.run(Bundle{})));
  runtime->shutdown();
  runtime.reset();
  return 0;
}

TEST_CASE("Runtime: a forked child gets a clear error at once, and the parent does not notice") {
  const std::string job = unique_job_id();
  CHECK(run_ranks(2, [&](int rank) {
          auto created = Runtime::create(rank_config(job, rank, 2));
          RONDE_CHILD_REQUIRE(created.ok());
          std::unique_ptr<Runtime> runtime = std::move(*created);
          auto group = runtime->groups().open({0, 1});
          RONDE_CHILD_REQUIRE(group.ok());
          Processes child;
          child.start([&] { return use_after_fork(runtime, **group); });
          for (int i = 0; i < 20; ++i) {
            std::vector<float> values{1.0F};
            RONDE_CHILD_REQUIRE(sum(*runtime, kGlobalSet, "w", values).ok() && values[0] == 2.0F);
          }
          RONDE_CHILD_REQUIRE(child.wait_all() == all_good(1));
          std::vector<float> values{1.0F};
          RONDE_CHILD_REQUIRE(sum(*runtime, kGlobalSet, "last", values).ok());
          return 0;
        }) == all_good(2));
}

/// From now on no thread of this process can start: its stack would be too large.
void forbid_threads() {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, std::size_t{1} << 46);
  ::pthread_setattr_default_np(&attributes);
}

TEST_CASE("Runtime: where no thread can start, an error says so, and no exception") {
  const std::string job = unique_job_id();
  CHECK(run_ranks(1, [&](int rank) {
          forbid_threads();
          const auto runtime = Runtime::create(rank_config(job, rank, 1));
          RONDE_CHILD_REQUIRE(runtime.status().code() == Code::kResourceExhausted);
          RONDE_CHILD_REQUIRE(runtime.status().message().find("cannot start a thread") !=
                              std::string::npos);
          return 0;
        }) == all_good(1));
}

}  // namespace
}  // namespace ronde
