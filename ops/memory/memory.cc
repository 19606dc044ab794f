#include "ops/memory/memory.h"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "core/base/log.h"
#include "ops/memory/device_wait.h"

namespace ronde {
namespace {

constexpr std::size_t kAlignment = 64;

std::shared_ptr<std::byte> heap_memory(std::size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}));
  return {memory,
          [](std::byte* freed) { ::operator delete (freed, std::align_val_t{kAlignment}); }};
}

std::size_t room(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

std::shared_ptr<std::byte> HostCopyEngine::allocate(std::size_t bytes) {
  if (communicator_ != nullptr) {
    if (auto memory = communicator_->allocate(bytes, kNoStream)) return memory;
  }
  return heap_memory(bytes);
}

void HostCopyEngine::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  if (from == nullptr) {
    std::memset(to, 0, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

std::shared_ptr<std::byte> DeviceCopyEngine::allocate(std::size_t bytes) {
  if (communicator_ != nullptr) {
    if (auto memory = communicator_->allocate(bytes, stream_)) return memory;
  }
  auto memory = device_->allocate(MemoryKind::kDevice, bytes);
  if (memory.ok()) return std::move(memory).value();
  log(LogLevel::kWarning, "{}; fused operations use host memory instead, which is slow",
      memory.status().message());
  auto pinned = device_->allocate(MemoryKind::kPinned, bytes);
  if (!pinned.ok()) throw std::bad_alloc();
  return std::move(pinned).value();
}

void DeviceCopyEngine::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0 && to != from) pending_.push_back({from, to, bytes});
}

Status DeviceCopyEngine::flush(DeviceStream stream) {
  if (pending_.empty()) return {};
  Status status = device_->transform({.copies = pending_}, stream);
  pending_.clear();
  return status;
}

std::byte* GrowingMemory::at_least(std::size_t bytes) {
  if (bytes <= bytes_) return memory_.get();
  memory_.reset();
  bytes_ = 0;
  memory_ = copies_.allocate(bytes);
  bytes_ = bytes;
  return memory_.get();
}

std::byte* HostMemory::at_least(std::size_t bytes, DeviceOps& device) {
  if (bytes <= bytes_) return memory_.get();
  memory_.reset();
  bytes_ = 0;
  auto pinned = device.allocate(MemoryKind::kPinned, bytes);
  if (pinned.ok()) {
    memory_ = std::move(pinned).value();
  } else {
    log(LogLevel::kWarning, "{}; plain memory is used instead, which is slower",
        pinned.status().message());
    memory_ = HostCopyEngine(nullptr).allocate(bytes);
  }
  bytes_ = bytes;
  return memory_.get();
}

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
