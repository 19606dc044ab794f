// The phases that the collectives of shared memory report.
#include <doctest/doctest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/backends/shm/shm_fixture.h"
#include "tests/support/phase_lines.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {
namespace {

using Lines = std::vector<std::string>;

/// The phases that rank 0 of two reports of an allreduce of `count` floats.
Lines told_of(std::size_t count, const ShmOptions& options) {
  const LocalJob job(2);
  Lines lines;
  run_ranks(2, [&](int rank) {
    const auto group = open_shm(job, rank, options);
    REQUIRE(group != nullptr);
    std::vector<float> values(count, 1.0F);
    auto* const data = reinterpret_cast<std::byte*>(values.data());
    const Segment segment{data, data, count * sizeof(float)};
    PhaseLines observer(segment.bytes);
    Work work = allreduce_of({&segment, 1}, DType::kFloat32);
    work.phases = &observer;
    CHECK(group->run(work, kNoStream, AbortToken()).ok());
    CHECK(values.back() == 2.0F);
    CHECK(observer.all_ended());
    if (rank == 0) lines = observer.lines;
  });
  return lines;
}

/// True if the kernel lets a process read another one's memory; here it is the same one.
bool kernel_copies() {
  char from = 1;
  char to = 0;
  const iovec local{&to, 1};
  const iovec remote{&from, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

constexpr ShmOptions kStaged{.single_copy = SingleCopy::kNever, .arenas = false};

TEST_CASE("phases: of a small allreduce only the way it is done is told") {
  CHECK(told_of(1000, kStaged) == Lines{"one-shot"});
}

TEST_CASE("phases: of a large allreduce rounds are told, and what one of them is made of") {
  const Lines lines = told_of(std::size_t{4} << 20, kStaged);
  CHECK(lines.front() == "two-shot");
  CHECK(has(lines, "two-shot/round 1-"));
  for (const char* phase : {"/stage", "/wait for ranks", "/reduce", "/deliver"}) {
    CHECK_MESSAGE(has(lines, phase), phase);
  }
  CHECK(lines.size() < 30);
}

TEST_CASE("phases: an allreduce that reads the others' memory says so") {
  const Lines lines = told_of(std::size_t{4} << 20, {.single_copy = SingleCopy::kAlways});
  if (!kernel_copies()) return;
  CHECK(has(lines, "direct"));
  CHECK(has(lines, "direct/reduce"));
  CHECK(has(lines, "direct/wait for ranks"));
}

}  // namespace
}  // namespace ronde::test
