#include "backends/shm/memory/arena.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

namespace ronde::shm {
namespace {

std::shared_ptr<Arena> make_arena() {
  auto arena = Arena::create();
  REQUIRE(arena.ok());
  return *arena;
}

ArenaView view_of(const Arena& arena) {
  auto memory = open_memory(getpid(), arena.fd(), arena.bytes());
  REQUIRE(memory.ok());
  auto mapping = map_memory(*memory, arena.bytes());
  REQUIRE(mapping.ok());
  return {reinterpret_cast<std::uintptr_t>(arena.base()), std::move(*mapping)};
}

TEST_CASE("what one writes to memory of an arena, a view of it shows") {
  const auto arena = make_arena();
  const ArenaView view = view_of(*arena);
  const auto memory = arena->allocate(10'000);
  REQUIRE(memory != nullptr);
  memory.get()[9'999] = std::byte{7};
  CHECK(view.at(memory.get() + 9'999)[0] == std::byte{7});
  view.at(memory.get())[0] = std::byte{8};
  CHECK(memory.get()[0] == std::byte{8});
}

TEST_CASE("a view knows no other memory") {
  const auto arena = make_arena();
  const ArenaView view = view_of(*arena);
  const std::byte elsewhere{};
  CHECK(view.at(&elsewhere) == nullptr);
  CHECK(view.at(nullptr) == nullptr);
  CHECK(view.at(arena->base() - 1) == nullptr);
  CHECK(view.at(arena->base() + arena->bytes()) == nullptr);
}

TEST_CASE("allocations are zero, do not overlap, and their memory is used again") {
  const auto arena = make_arena();
  constexpr std::size_t kBytes = 3'000'000;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::shared_ptr<std::byte>> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(arena->allocate(kBytes));
      REQUIRE(all.back() != nullptr);
      CHECK(all.back().get()[kBytes - 1] == std::byte{0});
      std::memset(all.back().get(), i + 1, kBytes);
    }
    for (int i = 0; i < 4; ++i) {
      CHECK(all[static_cast<std::size_t>(i)].get()[0] == std::byte(i + 1));
      CHECK(all[static_cast<std::size_t>(i)].get()[kBytes - 1] == std::byte(i + 1));
    }
    CHECK(all.front().get() == arena->base());
    if (round % 2 == 0) std::swap(all[0], all[3]);  // freed in another order
  }
}

TEST_CASE("more than there is gives null") {
  const auto arena = make_arena();
  CHECK(arena->allocate(arena->bytes() + 1) == nullptr);
  CHECK(arena->allocate(static_cast<std::size_t>(-1)) == nullptr);
  CHECK(arena->allocate(0) != nullptr);
}

TEST_CASE("memory outlives everything but its pointer") {
  auto arena = make_arena();
  const std::weak_ptr<Arena> watch = arena;
  auto memory = arena->allocate(100);
  arena.reset();
  memory.get()[0] = std::byte{1};
  CHECK(memory.get()[0] == std::byte{1});
  memory.reset();
  CHECK(watch.expired());
}

TEST_CASE("a forked child that frees its copy leaves the parent's memory alone") {
  const auto arena = make_arena();
  auto memory = arena->allocate(100);
  memory.get()[0] = std::byte{5};
  const pid_t child = fork();
  if (child == 0) {
    memory.reset();
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(memory.get()[0] == std::byte{5});
}

}  // namespace
}  // namespace ronde::shm
