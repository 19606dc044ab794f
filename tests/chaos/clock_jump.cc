// Preloaded into a worker: its wall clock jumps while it runs. RONDE_CHAOS_CLOCK_JUMP="AFTER_MS
// SECONDS". The steady clock is left alone, and what the kernel does by itself with the wall clock
// does not jump: a deadline by the wall clock then is that much too late or too early
// at all, and is found by it.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

struct Jump {
  long after_ns = 0;
  long seconds = 0;
};

long steady_ns() {
  timespec time{};
  ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

const Jump& jump() {
  static const Jump made = [] {
    Jump read;
    long after_ms = 0;
    const char* text = std::getenv("RONDE_CHAOS_CLOCK_JUMP");
    if (text == nullptr || std::sscanf(text, "%ld %ld", &after_ms, &read.seconds) != 2)
      return Jump();
    read.after_ns = steady_ns() + after_ms * 1'000'000;
    return read;
  }();
  return made;
}

[[gnu::constructor]] void begin() { (void)jump(); }

long offset() { return jump().seconds != 0 && steady_ns() >= jump().after_ns ? jump().seconds : 0; }

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long status = ::syscall(SYS_clock_gettime, clock, time);
  const bool wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
  if (status == 0 && wall) time->tv_sec += offset();
  return static_cast<int>(status);
}

[[gnu::visibility("default")]] int gettimeofday(timeval* time, void*) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  time->tv_sec = precise.tv_sec;
  time->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

[[gnu::visibility("default")]] time_t time(time_t* into) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  if (into != nullptr) *into = precise.tv_sec;
  return precise.tv_sec;
}

}  // extern "C"
