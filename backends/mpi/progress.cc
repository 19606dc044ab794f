#include "backends/mpi/progress.h"

#include <sched.h>

#include <chrono>
#include <thread>

#include "backends/mpi/library.h"

namespace ronde::mpi {
namespace {

// Tests before a wait yields its core, and before it sleeps. MPI wakes no thread: it makes progress
// only while it is called.
constexpr int kSpins = 200;
constexpr int kYields = 5000;
constexpr std::chrono::microseconds kSleep{50};

void relax(int tests) {
  if (tests < kSpins) return;
  if (tests < kYields) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace

Staging::Staging(std::size_t bytes)
    : memory_(std::make_unique_for_overwrite<std::byte[]>(bytes)), capacity_(bytes) {}

void Staging::reserve(std::size_t bytes) {
  if (capacity_ < bytes) *this = Staging(bytes);
}

void Staging::abandon() {
  if (memory_) Library::instance().abandon(std::move(memory_));
  capacity_ = 0;
}

Status wait_all(std::span<MPI_Request> requests, const AbortToken& abort) {
  for (int tests = 0;; ++tests) {
    int done = 0;
    {
      const Library::Turn turn;
      RONDE_RETURN_IF_ERROR(status_of(MPI_Testall(static_cast<int>(requests.size()),
                                                  requests.data(), &done, MPI_STATUSES_IGNORE),
                                      "MPI_Testall"));
    }
    if (done != 0) return {};
    if (abort.poll()) return abort.status();
    relax(tests);
  }
}

}  // namespace ronde::mpi
