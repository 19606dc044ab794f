#include "backends/shm/memory/steps.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "backends/shm/memory/memory.h"
#include "tests/support/run_ranks.h"

namespace ronde::shm {
namespace {

/// Memory of a group within one process.
class Memory {
 public:
  explicit Memory(int ranks) : layout(ranks) {
    auto memory = create_memory(layout.total_bytes());
    REQUIRE(memory.ok());
    auto mapping = map_memory(*memory, layout.total_bytes());
    REQUIRE(mapping.ok());
    mapping_ = std::move(*mapping);
  }
  [[nodiscard]] std::byte* base() const { return mapping_.data(); }
  const Layout layout;

 private:
  Mapping mapping_;
};

/// Every rank writes (step, rank) into its slot and checks what it reads from the others.
void exchange_steps(const Memory& memory, int ranks, int rank, SpinLimit spin, Step count) {
  const AbortToken abort;
  const Stop stop(abort, nullptr);
  Steps steps(memory.layout, memory.base(), ranks, rank, spin);
  for (Step step = 0; step < count; ++step) {
    REQUIRE(steps.begin(stop).ok());
    const std::uint64_t mine = std::uint64_t{step} << 32 | static_cast<std::uint64_t>(rank);
    std::memcpy(steps.slot(rank, step), &mine, sizeof mine);
    steps.set_note(mine);
    steps.arrive();
    REQUIRE(steps.wait_all(step, stop).ok());
    for (int r = 0; r < ranks; ++r) {
      std::uint64_t theirs = 0;
      std::memcpy(&theirs, steps.slot(r, step), sizeof theirs);
      REQUIRE(theirs == (std::uint64_t{step} << 32 | static_cast<std::uint64_t>(r)));
      REQUIRE(steps.note(r, step) == theirs);
    }
  }
}

TEST_CASE("every rank reads what the others wrote in each step") {
  for (const int ranks : {1, 2, 3, 8}) {
    for (const SpinLimit spin : {SpinLimit{0}, SpinLimit{20}}) {
      const Memory memory(ranks);
      test::run_ranks(ranks, [&](int rank) { exchange_steps(memory, ranks, rank, spin, 300); });
    }
  }
}

TEST_CASE("a wrong sum: a fast rank overwrote results that a slow one had yet to copy") {
  const Memory memory(2);
  Steps fast(memory.layout, memory.base(), 2, 0, SpinLimit{0});
  Steps slow(memory.layout, memory.base(), 2, 1, SpinLimit{0});
  for (Steps* steps : {&fast, &slow}) {
    steps->read_late(1);
    steps->arrive();
  }
  const auto begins = [&] {
    AbortToken abort;
    std::thread patience([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      abort.abort(Status(Code::kAborted, "enough"));
    });
    const bool begun = fast.begin(Stop(abort, nullptr)).ok();
    patience.join();
    return begun;
  };
  CHECK(begins());
  fast.arrive();
  CHECK_FALSE(begins());  // two steps behind would be enough, but the slow rank reads a step late
  slow.arrive();
  CHECK(begins());
  fast.arrive();
  CHECK(begins());  // from here on two steps are enough again
}

TEST_CASE("a writer waits until its slot has been read two steps behind") {
  const Memory memory(2);
  const AbortToken abort;
  AbortToken given_up;
  given_up.abort(Status(Code::kAborted, "enough"));
  Steps writer(memory.layout, memory.base(), 2, 0, SpinLimit{0});
  Steps reader(memory.layout, memory.base(), 2, 1, SpinLimit{0});
  const auto can_begin = [&] {
    // Own arrivals count as well, so only the reader can hold the writer back.
    return writer.wait_all(writer.current() - 2, Stop(given_up, nullptr)).ok();
  };
  for (int i = 0; i < 2; ++i) {
    CHECK(can_begin());
    writer.arrive();
  }
  CHECK_FALSE(can_begin());
  reader.arrive();
  CHECK(can_begin());
}

TEST_CASE("step numbers may wrap around") {
  const Memory memory(2);
  const AbortToken abort;
  const Stop stop(abort, nullptr);
  constexpr Step kBefore = 0xfffffffeU;
  Steps fresh(memory.layout, memory.base(), 2, 0, SpinLimit{0});
  memory.layout.flag(memory.base(), 1).arrived.store(kBefore + 1);
  CHECK(fresh.wait(1, kBefore, stop).ok());
  memory.layout.flag(memory.base(), 1).arrived.store(1);
  CHECK(fresh.wait(1, 0, stop).ok());
}

TEST_CASE("an abort ends a wait that sleeps") {
  const Memory memory(2);
  for (const bool of_group : {false, true}) {
    AbortToken call;
    AbortToken group;
    Steps steps(memory.layout, memory.base(), 2, 0, SpinLimit{0});
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      (of_group ? group : call).abort(Status(Code::kRankFailure, "rank 1 died"));
    });
    const Status status = steps.wait(1, 5, Stop(call, &group));
    aborter.join();
    CHECK(status.code() == Code::kRankFailure);
    CHECK(status.message() == "rank 1 died");
  }
}

TEST_CASE("slots of different ranks and steps do not overlap") {
  for (const int ranks : {1, 2, 7, 64, 256}) {
    const Layout layout(ranks);
    std::byte origin{};  // nothing is read or written there
    std::byte* const base = &origin;
    std::vector<std::size_t> starts;
    for (int r = 0; r < ranks; ++r) {
      for (Step s = 0; s < kSlots; ++s) {
        starts.push_back(static_cast<std::size_t>(layout.slot(base, r, s) - base));
      }
    }
    CHECK(layout.slot(base, 0, 0) == layout.slot(base, 0, kSlots));
    for (std::size_t i = 1; i < starts.size(); ++i) {
      CHECK(starts[i] >= starts[i - 1] + layout.slot_bytes());
    }
    CHECK(starts.back() + layout.slot_bytes() <= layout.total_bytes());
    CHECK(layout.slot_bytes() >= static_cast<std::size_t>(ranks) * 4 * kLine / 2);
    CHECK(layout.total_bytes() <= std::size_t{150'000} << 10);
  }
}

TEST_CASE("rings of different pairs do not overlap") {
  for (const int ranks : {2, 5, 64, 256}) {
    const Layout layout(ranks);
    std::byte origin{};  // nothing is read or written there
    std::byte* const base = &origin;
    const std::byte* last = nullptr;
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        if (from == to) continue;
        std::byte* const data = layout.ring_data(base, from, to);
        if (last != nullptr) CHECK(data == last + layout.ring_bytes());
        last = data;
      }
    }
    CHECK(static_cast<std::size_t>(last - base) + layout.ring_bytes() <= layout.total_bytes());
  }
}

TEST_CASE("waits for a rank that has left end, but for what it did before") {
  const Memory memory(2);
  const AbortToken abort;
  const Stop stop(abort, nullptr);
  test::run_ranks(2, [&](int rank) {
    Steps steps(memory.layout, memory.base(), 2, rank, SpinLimit{0});
    steps.arrive();
    if (rank == 1) return steps.leave({Code::kAborted, "out of memory"});
    CHECK(steps.wait_all(0, stop).ok());
    steps.arrive();
    const Status one = steps.wait(1, 1, stop);
    CHECK(one.code() == Code::kAborted);
    CHECK(one.message() ==
          "rank 1 of this host's group has left it after a failure: out of memory");
    CHECK(steps.wait_all(1, stop).code() == Code::kAborted);
  });
}

TEST_CASE("a rank that leaves as another has failed names that one") {
  const Memory memory(2);
  const AbortToken abort;
  const Stop stop(abort, nullptr);
  const std::string message(2000, 'm');
  test::run_ranks(2, [&](int rank) {
    Steps steps(memory.layout, memory.base(), 2, rank, SpinLimit{0});
    if (rank == 1) {
      steps.leave(Status(Code::kRankFailure, message).about({.rank = 7, .host = "far", .pid = 70}));
      return steps.leave({Code::kAborted, "a later error"});
    }
    const Status status = steps.wait(1, 0, stop);
    CHECK(status.code() == Code::kRankFailure);
    CHECK(status.message() == message.substr(0, sizeof(Departure::message) - 1));
    REQUIRE(status.failed_rank());
    CHECK(status.failed_rank()->rank == 7);
    CHECK(status.failed_rank()->host == "far");
    CHECK(status.failed_rank()->pid == 70);
  });
}

}  // namespace
}  // namespace ronde::shm
