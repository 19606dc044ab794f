#include "core/base/os/memory_file.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace ronde {
namespace {

constexpr std::size_t kBytes = std::size_t{3} * 4096;

TEST_CASE("memory file: its mappings share zeros at first, then what is written") {
  const auto file = make_memory_file("test", kBytes);
  REQUIRE(file.ok());
  const auto here = map_memory_file(file->get(), kBytes);
  const auto there = map_memory_file(file->get(), kBytes);
  REQUIRE(here.ok());
  REQUIRE(there.ok());
  CHECK(here->data() != there->data());
  CHECK(there->data()[kBytes - 1] == std::byte{0});
  here->data()[kBytes - 1] = std::byte{42};
  CHECK(there->data()[kBytes - 1] == std::byte{42});
}

TEST_CASE("memory file: the size cannot change") {
  const auto file = make_memory_file("test", kBytes);
  REQUIRE(file.ok());
  CHECK(ftruncate(file->get(), 0) != 0);
  CHECK(ftruncate(file->get(), 2 * kBytes) != 0);
}

TEST_CASE("memory file: others' files and sizes are told apart") {
  const auto file = make_memory_file("test", kBytes);
  REQUIRE(file.ok());
  CHECK(is_memory_file(file->get(), kBytes));
  CHECK_FALSE(is_memory_file(file->get(), 2 * kBytes));
  CHECK_FALSE(is_memory_file(-1, kBytes));
  const FileDescriptor unsealed(memfd_create("test", MFD_CLOEXEC));
  REQUIRE(ftruncate(unsealed.get(), static_cast<off_t>(kBytes)) == 0);
  CHECK_FALSE(is_memory_file(unsealed.get(), kBytes));
}

TEST_CASE("memory file: a size beyond the kernel's is an error that names it") {
  const auto file = make_memory_file("test", std::size_t{1} << 63);
  CHECK(file.status().code() == Code::kResourceExhausted);
  CHECK(file.status().message().find("9223372036854775808 bytes") != std::string::npos);
}

TEST_CASE("memory file: a limit of file sizes is an error and not the end of the process") {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = kBytes, .rlim_max = kBytes};
    const bool limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
    const Status refused = make_memory_file("test", kBytes + 1).status();
    const bool told = refused.code() == Code::kUnavailable &&
                      refused.message().find("(12288, ulimit -f)") != std::string::npos;
    _exit(limited && told && make_memory_file("test", kBytes).ok() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("mapping: a moved one is unmapped once, with its last owner") {
  const auto file = make_memory_file("test", kBytes);
  REQUIRE(file.ok());
  unsigned char resident[3];
  std::byte* data = nullptr;
  {
    auto made = map_memory_file(file->get(), kBytes);
    REQUIRE(made.ok());
    Mapping first = std::move(*made);
    data = first.data();
    Mapping second = std::move(first);
    CHECK(first.data() == nullptr);
    first = std::move(second);
    CHECK(first.bytes() == kBytes);
    CHECK(mincore(data, kBytes, resident) == 0);
  }
  CHECK(mincore(data, kBytes, resident) != 0);
}

}  // namespace
}  // namespace ronde
