#include "bindings/elastic/commit_store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>

#include "core/base/clock.h"
#include "tests/support/contains.h"

namespace ronde::elastic {
namespace {

using test::contains;
using Steps = std::vector<std::uint64_t>;

void fill(CommitStore& store, const std::vector<std::size_t>& sizes, int value) {
  const auto segments = store.begin(sizes);
  REQUIRE(segments.ok());
  for (const StoredSegment& segment : *segments) {
    std::memset(segment.bytes.data(), value, segment.bytes.size());
  }
}

bool holds(CommitStore& store, std::uint64_t step, const std::vector<std::size_t>& sizes,
           int value) {
  const auto segments = store.read(step);
  if (!segments.ok() || segments->size() != sizes.size()) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto bytes = (*segments)[i].bytes;
    if (bytes.size() != sizes[i]) return false;
    const auto same = [&](std::byte b) { return b == static_cast<std::byte>(value); };
    if (!std::all_of(bytes.begin(), bytes.end(), same)) return false;
  }
  return true;
}

TEST_CASE("commit store: keeps the last two steps, whatever their sizes") {
  CommitStore store;
  CHECK(store.steps().empty());
  const std::vector<std::vector<std::size_t>> sizes = {{3, 0, 70}, {5000, 1}, {}, {1 << 20, 64}};
  for (std::uint64_t step = 0; step < 20; ++step) {
    fill(store, sizes[step % 4], static_cast<int>(step));
    REQUIRE(store.commit(step).ok());
    CHECK(store.steps() == (step == 0 ? Steps{0} : Steps{step, step - 1}));
  }
  CHECK(holds(store, 19, sizes[3], 19));
  CHECK(holds(store, 18, sizes[2], 18));
}

TEST_CASE("commit store: a copy that was begun and not committed leaves the last one whole") {
  CommitStore store;
  fill(store, {100}, 1);
  CHECK(store.commit(7).ok());
  fill(store, {100}, 2);
  CHECK(store.commit(9).ok());
  fill(store, {100, 200}, 3);
  CHECK(store.steps() == Steps{9});
  fill(store, {300}, 4);  // begins anew, in the same memory
  CHECK(store.steps() == Steps{9});
  CHECK(holds(store, 9, {100}, 2));
  CHECK(store.commit(10).ok());
  CHECK(store.steps() == Steps{10, 9});
}

TEST_CASE("commit store: a step that was gone back to is the one that the next commit keeps") {
  CommitStore store;
  fill(store, {8}, 1);
  CHECK(store.commit(1).ok());
  fill(store, {8}, 2);
  CHECK(store.commit(2).ok());
  CHECK(holds(store, 1, {8}, 1));
  CHECK(store.steps() == Steps{1});
  fill(store, {8}, 5);
  CHECK(store.commit(2).ok());
  CHECK(store.steps() == Steps{2, 1});
  CHECK(holds(store, 2, {8}, 5));
  CHECK(holds(store, 1, {8}, 1));
}

TEST_CASE("commit store: segments are aligned, and outlive the store") {
  std::vector<StoredSegment> segments;
  {
    CommitStore store;
    const std::vector<std::size_t> sizes = {1, 3, 65, 4097};
    segments = store.begin(sizes).value();
  }
  for (const StoredSegment& segment : segments) {
    CHECK(reinterpret_cast<std::uintptr_t>(segment.bytes.data()) % 64 == 0);
    std::memset(segment.bytes.data(), 1, segment.bytes.size());
  }
}

/// A store with a hook that keeps duplicates of its memory files, as an agent does.
struct Kept {
  std::array<FileDescriptor, 2> files;
  int calls = 0;

  Status take(int copy, int file) {
    ++calls;
    files.at(static_cast<std::size_t>(copy)).reset(::fcntl(file, F_DUPFD_CLOEXEC, 0));
    return {};
  }
  CommitStore adopt() {
    CommitStore store;
    for (int copy = 0; copy < 2; ++copy) {
      auto& file = files.at(static_cast<std::size_t>(copy));
      if (file.valid()) CHECK(store.adopt(copy, std::move(file)).ok());
    }
    return store;
  }
};

TEST_CASE("commit store: another one adopts the copies, and goes on in their memory") {
  Kept kept;
  const std::vector<std::size_t> sizes = {100, 0, 5000};
  {
    CommitStore store;
    fill(store, sizes, 1);
    CHECK(store.commit(4).ok());
    CHECK(store.set_file_hook([&](int copy, int file) { return kept.take(copy, file); }).ok());
    fill(store, {100}, 2);
    CHECK(store.commit(5).ok());
    CHECK(kept.calls == 2);
  }
  CommitStore next = kept.adopt();
  CHECK(next.steps() == Steps{5, 4});
  int made = 0;
  CHECK(next.set_file_hook([&](int, int) {
              ++made;
              return Status();
            })
            .ok());
  CHECK(made == 2);
  fill(next, sizes, 3);  // in place of step 4
  CHECK(made == 2);
  CHECK(next.steps() == Steps{5});
  CHECK(holds(next, 5, {100}, 2));
  CHECK(next.commit(8).ok());
  CHECK(holds(next, 8, sizes, 3));
}

TEST_CASE("commit store: a copy that was begun when its process died is not whole") {
  Kept kept;
  {
    CommitStore store;
    CHECK(store.set_file_hook([&](int copy, int file) { return kept.take(copy, file); }).ok());
    fill(store, {100}, 1);
    CHECK(store.commit(1).ok());
    fill(store, {100}, 2);
    CHECK(store.commit(2).ok());
    fill(store, {100}, 3);
  }
  CommitStore next = kept.adopt();
  CHECK(next.steps() == Steps{2});
  CHECK(holds(next, 2, {100}, 2));
}

TEST_CASE("commit store: files that are no copies are refused") {
  CommitStore store;
  fill(store, {8}, 1);
  CHECK(store.commit(1).ok());
  CHECK(contains(store.adopt(0, FileDescriptor()).message(), "no copy of a rank's state"));
  CHECK(!store.adopt(0, FileDescriptor(::open("/dev/null", O_RDWR))).ok());
  CHECK(!store.adopt(0, make_memory_file("other", 16).value()).ok());
  auto absurd = make_memory_file("other", 4096);
  const std::uint64_t table[] = {2, 4000, std::uint64_t{1} << 63};
  REQUIRE(::pwrite(absurd->get(), table, sizeof(table), 64) == sizeof(table));
  CHECK(!store.adopt(0, std::move(*absurd)).ok());
  CHECK(holds(store, 1, {8}, 1));
}

TEST_CASE("commit store: once cleared it begins at any step") {
  CommitStore store;
  fill(store, {8}, 1);
  CHECK(store.commit(9).ok());
  store.clear();
  CHECK(store.steps().empty());
  fill(store, {8}, 2);
  CHECK(store.commit(1).ok());
  CHECK(store.steps() == Steps{1});
}

TEST_CASE("commit store: wrong calls are refused with what is allowed") {
  CommitStore store;
  CHECK(contains(store.commit(1).message(), "without a begin()"));
  fill(store, {8}, 1);
  CHECK(store.commit(5).ok());
  fill(store, {8}, 1);
  CHECK(contains(store.commit(5).message(), "allowed: later steps"));
  CHECK(contains(store.read(4).status().message(), "no copy of step 4; there is: 5"));
  const std::vector<std::size_t> enormous = {std::size_t{1} << 62};
  CHECK(!store.begin(enormous).ok());
  CHECK(holds(store, 5, {8}, 1));
}

}  // namespace
}  // namespace ronde::elastic
