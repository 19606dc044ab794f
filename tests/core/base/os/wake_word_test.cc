#include "core/base/os/wake_word.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <thread>

namespace ronde {

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
