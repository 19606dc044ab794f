#include "ops/memory/fusion_buffer.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/base/bytes.h"
#include "tests/support/plain_kernels.h"

namespace ronde::test {
namespace {

// A data plane that only gives memory, and counts.
class MemoryPlane final : public Communicator {
 public:
  MemoryPlane() : Communicator({.name = "memory"}) {}
  Status run(const Work&, DeviceStream, const AbortToken&) override {
    return {Code::kUnsupported, "memory only"};
  }
  std::shared_ptr<std::byte> allocate(std::size_t bytes, DeviceStream) override {
    ++allocations;
    return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  }
  int allocations = 0;
};

struct Fixture {
  FlatWork flatten(const Work& work) { return buffer.flatten(work, *kernels, abort); }

  std::shared_ptr<const ReduceKernels> kernels = plain_kernels();
  AbortToken abort;
  HostCopyEngine copies{nullptr};
  FusionBuffer buffer{copies, 0, 2};
};

std::byte* writable(std::string& text) { return reinterpret_cast<std::byte*>(text.data()); }
const std::byte* readable(std::string_view text) { return as_bytes(text).data(); }
std::string_view text_at(const std::byte* bytes, std::size_t size) {
  return as_text(std::span(bytes, size));
}

Work work_of(Collective kind, std::span<const Segment> segments) {
  Work work;
  work.kind = kind;
  work.reduction.dtype = DType::kUint8;
  work.segments = segments;
  return work;
}

}  // namespace

TEST_CASE("FusionBuffer: one segment with all addresses is used where it is") {
  Fixture fixture;
  std::string out(3, '-');
  const std::array segments{Segment{readable("abc"), writable(out), 3}};
  const FlatWork flat = fixture.flatten(work_of(Collective::kAllreduce, segments));
  CHECK(flat.out == segments[0].out);
  CHECK(flat.in == segments[0].in);
  CHECK_FALSE(fixture.buffer.packed());
}

TEST_CASE("FusionBuffer: several segments are packed in order, null inputs as zeros") {
  Fixture fixture;
  std::string first(2, '-');
  std::string third(1, '-');
  const std::array segments{Segment{readable("ab"), writable(first), 2},
                            Segment{nullptr, nullptr, 2},
                            Segment{readable("z"), writable(third), 1}};
  const Work work = work_of(Collective::kAllreduce, segments);
  const FlatWork flat = fixture.flatten(work);
  CHECK(flat.bytes == 5);
  CHECK(flat.in == flat.out);
  CHECK(text_at(flat.in, 5) == std::string_view("ab\0\0z", 5));
  std::memcpy(flat.out, "12345", 5);
  fixture.buffer.unflatten(work);
  CHECK(first == "12");
  CHECK(third == "5");
}

TEST_CASE("FusionBuffer: a joined rank's single segment becomes zeros") {
  Fixture fixture;
  const std::array segments{Segment{nullptr, nullptr, 4}};
  const FlatWork flat = fixture.flatten(work_of(Collective::kAllreduce, segments));
  CHECK(text_at(flat.in, 4) == std::string_view("\0\0\0\0", 4));
  CHECK(flat.out != nullptr);
}

TEST_CASE("FusionBuffer: gathered segments are laid out rank by rank") {
  Fixture fixture;
  std::string first(3, '-');
  std::string second(3, '-');
  const std::array segments{Segment{readable("a"), writable(first), 3},
                            Segment{readable("xy"), writable(second), 3}};
  const std::array<std::size_t, 4> parts{1, 2, 2, 1};
  Work work = work_of(Collective::kAllgather, segments);
  work.chunk_bytes = parts;
  const FlatWork flat = fixture.flatten(work);
  CHECK(text_at(flat.in, 3) == "axy");
  CHECK(flat.chunk_bytes.size() == 2);
  CHECK(flat.chunk_bytes[0] == 3);
  CHECK(flat.chunk_bytes[1] == 3);
  std::memcpy(flat.out, "axybbz", 6);
  fixture.buffer.unflatten(work);
  CHECK(first == "abb");
  CHECK(second == "xyz");
}

TEST_CASE("FusionBuffer: scattered segments are laid out rank by rank") {
  Fixture fixture;
  std::string first(1, '-');
  std::string second(2, '-');
  const std::array segments{Segment{readable("abb"), writable(first), 3},
                            Segment{readable("xyz"), writable(second), 3}};
  const std::array<std::size_t, 4> parts{1, 2, 2, 1};
  Work work = work_of(Collective::kReduceScatter, segments);
  work.chunk_bytes = parts;
  const FlatWork flat = fixture.flatten(work);
  CHECK(text_at(flat.in, 6) == "axybbz");
  std::memcpy(flat.out, "123", 3);
  fixture.buffer.unflatten(work);
  CHECK(first == "1");
  CHECK(second == "23");
}

TEST_CASE("FusionBuffer: the root of a broadcast copies to its own output") {
  Fixture fixture;
  std::string out(3, '-');
  const std::array segments{Segment{readable("abc"), writable(out), 3}};
  const Work work = work_of(Collective::kBroadcast, segments);
  fixture.flatten(work);
  CHECK(out == "---");
  fixture.buffer.unflatten(work);
  CHECK(out == "abc");
}

TEST_CASE("FusionBuffer: memory comes from the data plane, grows, and is used again") {
  const auto kernels = plain_kernels();
  const AbortToken abort;
  MemoryPlane plane;
  HostCopyEngine copies(&plane);
  FusionBuffer buffer(copies, 0, 2);
  const std::array large{Segment{nullptr, nullptr, 100}};
  const std::array small{Segment{nullptr, nullptr, 10}};
  const std::array larger{Segment{nullptr, nullptr, 1000}};
  buffer.flatten(work_of(Collective::kAllreduce, large), *kernels, abort);
  buffer.flatten(work_of(Collective::kAllreduce, small), *kernels, abort);
  CHECK(plane.allocations == 1);
  buffer.flatten(work_of(Collective::kAllreduce, larger), *kernels, abort);
  CHECK(plane.allocations == 2);
}

}  // namespace ronde::test
