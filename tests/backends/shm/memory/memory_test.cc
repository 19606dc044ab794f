#include "backends/shm/memory/memory.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "backends/shm/memory/layout.h"

namespace ronde::shm {
namespace {

constexpr std::size_t kBytes = std::size_t{3} * 4096;

TEST_CASE("memory is shared with each rank that opens it") {
  auto memory = create_memory(kBytes);
  REQUIRE(memory.ok());
  auto opened = open_memory(getpid(), memory->get(), kBytes);
  REQUIRE(opened.ok());
  auto here = map_memory(*memory, kBytes);
  auto there = map_memory(*opened, kBytes);
  REQUIRE(here.ok());
  REQUIRE(there.ok());
  CHECK(here->data() != there->data());
  here->data()[kBytes - 1] = std::byte{42};
  CHECK(there->data()[kBytes - 1] == std::byte{42});
}

std::size_t existing_bytes(const FileDescriptor& memory) {
  struct stat facts {};
  REQUIRE(fstat(memory.get(), &facts) == 0);
  return static_cast<std::size_t>(facts.st_blocks) * 512;
}

TEST_CASE("what is reserved exists, and nothing else") {
  auto memory = create_memory(kBytes);
  REQUIRE(memory.ok());
  CHECK(existing_bytes(*memory) == 0);
  REQUIRE(reserve_memory(*memory, 4096 + 100, 200).ok());
  CHECK(existing_bytes(*memory) == 4096);
  CHECK(reserve_memory(*memory, 0, 0).ok());
}

TEST_CASE("a group's memory exists once each rank has reserved its own, so no access can fail") {
  for (const int ranks : {1, 2, 3, 17}) {
    const Layout layout(ranks);
    auto memory = create_memory(layout.total_bytes());
    REQUIRE(memory.ok());
    REQUIRE(reserve_memory(*memory, 0, layout.common_bytes()).ok());
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Stretch& own : layout.written_by(rank)) {
        REQUIRE(reserve_memory(*memory, own.offset, own.bytes).ok());
      }
    }
    CHECK(existing_bytes(*memory) == layout.total_bytes());
  }
}

TEST_CASE("large memory is mapped from a huge page's border on, without a gap") {
  constexpr std::size_t kLarge = 2 * kHugePage + kBytes;
  auto memory = create_memory(kLarge);
  REQUIRE(memory.ok());
  for (int i = 0; i < 3; ++i) {
    auto mapping = map_memory(*memory, kLarge);
    REQUIRE(mapping.ok());
    CHECK(reinterpret_cast<std::uintptr_t>(mapping->data()) % kHugePage == 0);
    std::fill_n(mapping->data(), kLarge, std::byte{9});
  }
}

TEST_CASE("huge pages change no byte") {
  constexpr std::size_t kLarge = 2 * kHugePage + kBytes;
  auto memory = create_memory(kLarge);
  REQUIRE(memory.ok());
  auto mapping = map_memory(*memory, kLarge);
  REQUIRE(mapping.ok());
  std::fill_n(mapping->data(), kLarge, std::byte{5});
  use_huge_pages(mapping->data(), kLarge);
  const auto five = [](std::byte b) { return b == std::byte{5}; };
  CHECK(std::all_of(mapping->data(), mapping->data() + kLarge, five));
  use_huge_pages(mapping->data(), kBytes);
}

TEST_CASE("memory that is too large is an error that says so") {
  const auto memory = create_memory(std::size_t{1} << 63);
  REQUIRE_FALSE(memory.ok());
  CHECK(memory.status().code() == Code::kUnavailable);
  CHECK(memory.status().message().find("9223372036854775808 bytes") != std::string::npos);
}

TEST_CASE("what is not such memory is refused") {
  auto memory = create_memory(kBytes);
  REQUIRE(memory.ok());
  CHECK_FALSE(open_memory(getpid(), memory->get(), 2 * kBytes).ok());
  CHECK_FALSE(open_memory(getpid(), 987654, kBytes).ok());
  const FileDescriptor unsealed(memfd_create("test", MFD_CLOEXEC));
  REQUIRE(ftruncate(unsealed.get(), static_cast<off_t>(kBytes)) == 0);
  const auto refused = open_memory(getpid(), unsealed.get(), kBytes);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == Code::kUnavailable);
}

TEST_CASE("copy cost: a copy by the kernel costs something, and is measured once") {
  const double cost = kernel_copy_cost();
  CHECK(cost > 0.1);  // no kernel copies ten times as fast as memcpy
  CHECK((std::isinf(cost) || cost < 1000));
  CHECK(kernel_copy_cost() == cost);
}

TEST_CASE("what fits into any cache is not streamed, and what fits into none is") {
  CHECK_FALSE(outgrows_caches(2, 1024));
  CHECK(outgrows_caches(2, std::size_t{1} << 40));
}

TEST_CASE("the tensors of all ranks count together") {
  std::size_t bytes = 1;
  while (!outgrows_caches(8, bytes)) bytes *= 2;
  CHECK_FALSE(outgrows_caches(4, bytes));
  CHECK(outgrows_caches(4, 2 * bytes));
}

}  // namespace

}  // namespace ronde::shm
