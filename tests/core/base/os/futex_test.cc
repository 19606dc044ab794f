#include "core/base/os/futex.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <new>
#include <thread>

namespace ronde {
namespace {

constexpr std::chrono::milliseconds kShort{20};

TEST_CASE("futex: another value ends the wait at once") {
  const FutexWord word{1};
  futex_wait(word, 0, kForever);
  futex_wait_for(word, 0, std::chrono::hours(1));
}

TEST_CASE("futex: a wait ends at its deadline or limit") {
  const FutexWord word{0};
  const TimePoint start = now();
  while (now() < start + kShort) futex_wait(word, 0, start + kShort);
  while (now() < start + 2 * kShort) futex_wait_for(word, 0, kShort);
  futex_wait(word, 0, start);  // has passed
  CHECK(now() >= start + 2 * kShort);
}

TEST_CASE("futex: a wake-up ends a wait, in either scope") {
  for (const FutexScope scope : {FutexScope::kProcess, FutexScope::kShared}) {
    FutexWord word{0};
    std::thread waker([&] {
      std::this_thread::sleep_for(kShort);
      word.store(1);
      futex_wake_all(word, scope);
    });
    while (word.load() == 0) futex_wait(word, 0, kForever, scope);
    waker.join();
  }
}

TEST_CASE("futex: a shared word wakes another process") {
  void* const memory =
      ::mmap(nullptr, sizeof(FutexWord), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto& word = *new (memory) FutexWord(0);
  const pid_t child = ::fork();
  if (child == 0) {
    while (word.load() == 0) futex_wait(word, 0, kForever);
    ::_exit(7);
  }
  std::this_thread::sleep_for(kShort);
  word.store(1);
  futex_wake_all(word);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
  ::munmap(memory, sizeof(FutexWord));
}

TEST_CASE("futex: errno stays, for signal handlers") {
  const FutexWord word{1};
  errno = EDOM;
  futex_wait(word, 0, kForever);  // EAGAIN
  futex_wake_all(word);
  CHECK(errno == EDOM);
}

constexpr Duration kSlice = std::chrono::milliseconds(3);

/// A time at which no penalty can be left.
TimePoint some_time() { return TimePoint() + std::chrono::hours(1); }

bool yields_at(AdaptiveYield& yields, TimePoint time) {
  yields.begin(time);
  return yields.is_left();
}

/// For how long no wait yields after a dear yield at `time`.
Duration given_up(AdaptiveYield& yields, TimePoint time) {
  yields.begin(time);
  yields.note(time, time + kSlice);
  CHECK_FALSE(yields.is_left());
  CHECK_FALSE(yields.yield());
  Duration pause{};
  while (!yields_at(yields, time + kSlice + pause)) pause += std::chrono::milliseconds(1);
  return pause;
}

TEST_CASE("a wait yields a limited number of times") {
  AdaptiveYield yields;
  yields.begin(some_time());
  int count = 0;
  while (count < 100'000 && yields.yield()) ++count;
  CHECK(count < 100'000);
}

TEST_CASE("a core that comes back late ends yielding for a while") {
  AdaptiveYield yields;
  CHECK(given_up(yields, some_time()) >= 3 * kSlice);
  CHECK(yields_at(yields, some_time() + std::chrono::minutes(1)));
}

TEST_CASE("the more often yielding proves dear, the rarer it is tried, within a limit") {
  AdaptiveYield yields;
  TimePoint time = some_time();
  const Duration first = given_up(yields, time);
  Duration last = first;
  for (int i = 0; i < 20; ++i) last = given_up(yields, time += kSlice + last);
  CHECK(last > 3 * first);
  CHECK(last <= std::chrono::seconds(2));
  CHECK(given_up(yields, time + std::chrono::minutes(1)) == first);
}

TEST_CASE("a core that comes back at once changes nothing") {
  AdaptiveYield yields;
  yields.begin(some_time());
  yields.note(some_time(), some_time() + std::chrono::microseconds(5));
  CHECK(yields.is_left());
}

}  // namespace

TEST_CASE_TEMPLATE("WakeWord: a wake after the ticket ends the wait at once", Word, WakeWord,
                   SharedWakeWord) {
  Word word;
  const std::uint32_t ticket = word.ticket();
  word.wake();
  word.wait(ticket, kForever);
  CHECK(word.ticket() != ticket);
  CHECK(word.sleepers() == 0);
}

TEST_CASE_TEMPLATE("WakeWord: a wait without a wake ends at its deadline", Word, WakeWord,
                   SharedWakeWord) {
  Word word;
  const TimePoint deadline = now() + std::chrono::milliseconds(20);
  while (now() < deadline) word.wait(word.ticket(), deadline);
  CHECK(now() >= deadline);
}

TEST_CASE_TEMPLATE("WakeWord: what was written before the wake is seen after the wait", Word,
                   WakeWord, SharedWakeWord) {
  Word word;
  int value = 0;
  const std::uint32_t ticket = word.ticket();
  std::thread waker([&] {
    value = 7;
    word.wake();
  });
  while (word.ticket() == ticket) word.wait(ticket, kForever);
  CHECK(value == 7);
  waker.join();
}

TEST_CASE("WakeWord: wake leaves errno as it was, for signal handlers") {
  WakeWord word;
  errno = EDOM;
  word.wake();
  CHECK(errno == EDOM);
}

}  // namespace ronde
