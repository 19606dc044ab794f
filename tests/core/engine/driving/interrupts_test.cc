#include "core/engine/driving/interrupts.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("Interrupts: one ends the wait that is under way") {
  Interrupts interrupts;
  const WaitOptions options;
  const auto ignored = interrupts.ignored(options);
  CHECK(interrupts.check(options, ignored).ok());
  interrupts.raise();
  CHECK(interrupts.any_beyond(ignored));
  CHECK(interrupts.check(options, ignored).code() == Code::kInterrupted);
}

TEST_CASE("Interrupts: one that comes while nobody waits ends the next wait, and no other") {
  Interrupts interrupts;
  const WaitOptions options;
  interrupts.raise();
  CHECK(interrupts.check(options, interrupts.ignored(options)).code() == Code::kInterrupted);
  CHECK(interrupts.check(options, interrupts.ignored(options)).ok());
}

TEST_CASE("Interrupts: a wait that does not heed earlier ones leaves them to others") {
  Interrupts interrupts;
  WaitOptions leaving;
  leaving.heeds_earlier_interrupts = false;
  interrupts.raise();
  CHECK(interrupts.check(leaving, interrupts.ignored(leaving)).ok());
  const auto ignored = interrupts.ignored(leaving);
  interrupts.raise();
  CHECK(interrupts.check(leaving, ignored).code() == Code::kInterrupted);
  const WaitOptions options;
  CHECK(interrupts.check(options, interrupts.ignored(options)).code() == Code::kInterrupted);
}

TEST_CASE("Interrupts: the wait's own check ends it too") {
  Interrupts interrupts;
  WaitOptions options;
  options.interrupt = [] { return Status(Code::kInterrupted, "Ctrl-C"); };
  CHECK(interrupts.check(options, interrupts.ignored(options)).message() == "Ctrl-C");
}

}  // namespace ronde
