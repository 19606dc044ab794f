#include "bindings/elastic/huge_pages.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace ronde::elastic {
namespace {

std::shared_ptr<const Mapping> mapped(std::size_t bytes) {
  const auto file = make_memory_file("huge", bytes);
  REQUIRE(file.ok());
  auto memory = map_for_huge_pages(file->get(), bytes);
  REQUIRE(memory.ok());
  return std::make_shared<const Mapping>(std::move(*memory));
}

TEST_CASE("huge pages: memory begins where one can begin, and is as large as its file") {
  for (const std::size_t bytes : {kHugePageBytes, kHugePageBytes + 1, 3 * kHugePageBytes - 5000}) {
    const auto memory = mapped(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % kHugePageBytes == 0);
    CHECK(memory->bytes() == bytes);
    std::memset(memory->data(), 1, bytes);
  }
  CHECK(mapped(100)->bytes() == 100);
  CHECK_FALSE(map_for_huge_pages(-1, kHugePageBytes).ok());
}

TEST_CASE("huge pages: what is written while pages move stays") {
  const std::size_t bytes = 8 * kHugePageBytes + 12345;
  const auto memory = mapped(bytes);
  std::memset(memory->data(), 1, bytes);
  HugePageMover mover;
  mover.move(memory);
  for (int value = 2; value < 10; ++value) std::memset(memory->data(), value, bytes);
  mover.wait();
  for (std::size_t at = 0; at < bytes; ++at) REQUIRE(memory->data()[at] == std::byte{9});
  mover.move(memory);  // ends with its mover
  mover = HugePageMover();
}

}  // namespace
}  // namespace ronde::elastic
