#include "ops/memory/host_copy.h"

#include <fmt/format.h>

#include <new>

#include "ops/memory/device_wait.h"

namespace ronde {
namespace {

std::size_t room(std::size_t bytes) {
  constexpr std::size_t kSegmentAlignment = 64;
  return (bytes + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
}

}  // namespace

Status out_of_memory(const DeviceOps& device, std::string_view what, std::size_t bytes) {
  return {Code::kAborted,
          fmt::format("out of memory in {} of {} bytes on cuda:{}", what, bytes, device.index())};
}

Result<std::span<const Segment>> HostCopy::bring_down(Queue queue,
                                                      std::span<const Segment> segments,
                                                      const AbortToken& abort) {
  std::size_t all = 0;
  for (const Segment& segment : segments) all += room(segment.bytes);
  std::byte* at = nullptr;
  try {
    at = memory_.at_least(all, queue.device);
  } catch (const std::bad_alloc&) {
    return out_of_memory(queue.device, "bringing down", all);
  }
  on_host_.clear();
  for (const Segment& segment : segments) {
    if (segment.in != nullptr) {
      RONDE_RETURN_IF_ERROR(queue.device.copy(at, segment.in, segment.bytes, queue.stream));
    }
    on_host_.push_back({segment.in == nullptr ? nullptr : at, segment.out == nullptr ? nullptr : at,
                        segment.bytes});
    at += room(segment.bytes);
  }
  RONDE_ASSIGN_OR_RETURN(const DeviceEventPtr arrived, queue.device.record(queue.stream));
  RONDE_RETURN_IF_ERROR(wait_on_host(*arrived, abort));
  return std::span<const Segment>(on_host_);
}

Status HostCopy::bring_up(Queue queue, std::span<const Segment> segments) const {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto& [in, out, bytes] = on_host_[i];
    if (out == nullptr) continue;
    RONDE_RETURN_IF_ERROR(queue.device.copy(segments[i].out, out, bytes, queue.stream));
  }
  return {};
}

}  // namespace ronde
