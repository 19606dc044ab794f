#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "ops/memory/memory.h"
#include "tests/support/host_device.h"

namespace ronde::test {
namespace {

/// A device on which no event is ever reached.
struct StuckDevice final : public DeviceOps {
  struct Never final : DeviceEvent {
    [[nodiscard]] Result<bool> reached() const override { return false; }
    [[nodiscard]] Result<std::int64_t> ns_since(const DeviceEvent&) const override { return 0; }
  };
  [[nodiscard]] int index() const noexcept override { return 3; }
  Status make_current() override { return {}; }
  Result<std::shared_ptr<std::byte>> allocate(MemoryKind kind, std::size_t bytes) override {
    return host.allocate(kind, bytes);
  }
  Result<DeviceStream> open_stream() override { return host.open_stream(); }
  Status copy(void*, const void*, std::size_t, DeviceStream) override { return {}; }
  Status transform(const BatchedCopy&, DeviceStream) override { return {}; }
  Result<DeviceEventPtr> record(DeviceStream, EventUse) override {
    return DeviceEventPtr(std::make_shared<Never>());
  }
  Status wait(DeviceStream, const DeviceEvent&) override { return {}; }
  HostDevice host;
};

std::byte* bytes_of(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

}  // namespace

TEST_CASE("host copy: inputs come down in place, and results go up to the outputs") {
  HostDevice device;
  const HostCopy::Queue queue{device, nullptr};
  std::vector<float> in{1, 2, 3};
  std::vector<float> out(3), untouched(3);
  const std::array segments{Segment{bytes_of(in), bytes_of(out), 12},
                            Segment{bytes_of(in), nullptr, 12},
                            Segment{nullptr, bytes_of(untouched), 12}};
  HostCopy copy;
  const auto here = copy.bring_down(queue, segments, AbortToken());
  REQUIRE(here.ok());
  REQUIRE(here->size() == 3);
  CHECK(device.copies == 2);
  CHECK((*here)[0].in == (*here)[0].out);
  CHECK((*here)[1].out == nullptr);
  CHECK((*here)[2].in == nullptr);
  auto* const values = reinterpret_cast<float*>((*here)[0].out);
  CHECK(values[2] == 3.0F);
  values[2] = 30.0F;
  CHECK(copy.bring_up(queue, segments).ok());
  CHECK(out == std::vector<float>{1, 2, 30});
  CHECK(in == std::vector<float>{1, 2, 3});
}

TEST_CASE("host copy: an abort ends the wait for the device") {
  StuckDevice device;
  AbortToken abort;
  abort.abort({Code::kAborted, "enough"});
  std::vector<float> in(3);
  const Segment segment{bytes_of(in), nullptr, 12};
  HostCopy copy;
  CHECK(copy.bring_down({device, nullptr}, {&segment, 1}, abort).status().code() == Code::kAborted);
}

TEST_CASE("host copy: the error of missing memory names the device") {
  const Status status = out_of_memory(StuckDevice(), "allreduce", 12);
  CHECK(status.code() == Code::kAborted);
  CHECK(status.message() == "out of memory in allreduce of 12 bytes on cuda:3");
}

}  // namespace ronde::test
