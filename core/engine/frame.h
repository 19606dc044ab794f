// The first bytes of every frame between engines: which part of the engine it is for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace ronde {

/// Part of the engine that a frame belongs to. Values travel on the wire.
enum class EnginePart : std::uint32_t {
  kNegotiation = 1,  ///< `id` is the process set.
  kExchange = 2,     ///< `id` is the exchange's key.
  kMessage = 3,      ///< `id` is unused.
  kFailure = 4,      ///< The sender's job is broken; `id` is unused.
  kClock = 5,        ///< Comparing clocks; `id` is unused.
  kLaunch = 6,       ///< To rank 0: the sender coordinates the process set `id`, whose next device
                     ///< work needs its place in the order of launches.
};

/// What stands before the payload.
struct FrameHeader {
  EnginePart kind = EnginePart::kNegotiation;
  std::uint32_t reserved = 0;
  std::uint64_t id = 0;
};
static_assert(sizeof(FrameHeader) == 16);

/// Header and payload in one buffer, which is reused from call to call.
inline std::span<const std::byte> make_frame(std::vector<std::byte>& buffer, FrameHeader header,
                                             std::span<const std::byte> payload) {
  buffer.resize(sizeof header + payload.size());
  std::memcpy(buffer.data(), &header, sizeof header);
  if (!payload.empty()) {
    std::memcpy(buffer.data() + sizeof header, payload.data(), payload.size());
  }
  return buffer;
}

/// The header of a frame; nothing where it is too short or its kind unknown.
inline std::optional<FrameHeader> read_header(std::span<const std::byte> frame) {
  FrameHeader header;
  if (frame.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, frame.data(), sizeof header);
  if (header.kind < EnginePart::kNegotiation || header.kind > EnginePart::kLaunch) {
    return std::nullopt;
  }
  return header;
}

}  // namespace ronde
