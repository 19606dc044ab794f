#include "backends/shm/memory/reach.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

namespace ronde::shm {
namespace {

constexpr std::size_t kPage = 4096;

/// A page that nobody may read.
class ForbiddenPage {
 public:
  ForbiddenPage() : page_(mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(page_ != MAP_FAILED);
  }
  ForbiddenPage(const ForbiddenPage&) = delete;
  ForbiddenPage& operator=(const ForbiddenPage&) = delete;
  ~ForbiddenPage() { munmap(page_, kPage); }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(page_); }

 private:
  void* page_;
};

/// The pid of a process that has ended.
pid_t dead_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return child;
}

TEST_CASE("a process reads its own memory, and none that is forbidden or gone") {
  const int value = 42;
  int copy = 0;
  CHECK(can_read(getpid(), &value, &copy, sizeof value));
  CHECK(copy == 42);
  const ForbiddenPage forbidden;
  CHECK_FALSE(can_read(getpid(), forbidden.data(), &copy, sizeof copy));
  CHECK_FALSE(can_read(dead_process(), &value, &copy, sizeof copy));
}

TEST_CASE("a process writes its own memory, and none that is forbidden or gone") {
  const int value = 42;
  int copy = 0;
  CHECK(can_write(getpid(), &value, &copy, sizeof value));
  CHECK(copy == 42);
  const ForbiddenPage forbidden;
  CHECK_FALSE(can_write(getpid(), &value, forbidden.data(), sizeof value));
  CHECK_FALSE(can_write(dead_process(), &value, &copy, sizeof value));
}

TEST_CASE("segments are reachable where each address is") {
  std::vector<std::byte> bytes(1000);
  const ForbiddenPage forbidden;
  std::vector<Segment> segments(300, {.in = bytes.data(), .out = bytes.data() + 1, .bytes = 8});
  CHECK(is_reachable(segments));
  segments[299].out = forbidden.data();
  CHECK_FALSE(is_reachable(segments));
  segments[299].bytes = 0;
  CHECK(is_reachable(segments));
  segments[0].in = nullptr;
  CHECK_FALSE(is_reachable(segments));
  CHECK(is_reachable({}));
}

void check_many_pieces(PeerCopy::Direction direction) {
  const AbortToken abort;
  const Stop stop(abort, nullptr);
  std::vector<std::uint32_t> from(3'000'000);
  std::iota(from.begin(), from.end(), 1U);
  std::vector<std::uint32_t> to(from.size());
  const auto* source = reinterpret_cast<const std::byte*>(from.data());
  auto* target = reinterpret_cast<std::byte*>(to.data());
  PeerCopy copy(direction, getpid(), stop);
  std::size_t at = 0;
  for (std::size_t size = 1; at < from.size() * 4; size = size * 3 / 2 + 1) {
    const std::size_t bytes = std::min(size, from.size() * 4 - at);
    for (std::size_t piece = 0; piece < bytes; piece += 400'000) {
      const std::size_t part = std::min<std::size_t>(400'000, bytes - piece);
      copy.add(source + at + piece, target + at + piece, part);
    }
    at += bytes;
  }
  REQUIRE(copy.finish().ok());
  CHECK((from == to));
}

TEST_CASE("many pieces and long ones are all copied") {
  check_many_pieces(PeerCopy::Direction::kPull);
  check_many_pieces(PeerCopy::Direction::kPush);
}

TEST_CASE("where the peer's memory is gone, the verdict on the peer is the error") {
  AbortToken abort;
  const Stop stop(abort, nullptr);
  PeerCopy pull(PeerCopy::Direction::kPull, dead_process(), stop);
  int value = 0;
  pull.add(reinterpret_cast<const std::byte*>(&value), reinterpret_cast<std::byte*>(&value),
           sizeof value);
  std::thread watch([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    abort.abort(Status(Code::kRankFailure, "rank 1 died"));
  });
  const Status status = pull.finish();
  watch.join();
  CHECK(status.code() == Code::kRankFailure);
  CHECK(status.message() == "rank 1 died");
}

}  // namespace
}  // namespace ronde::shm
