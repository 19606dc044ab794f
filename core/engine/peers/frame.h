// Frames between engines: a header names the part of the engine that the payload is for. The
// payload of a failure is defined here too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/wire_codec.h"

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

/// Comes before the payload.
struct FrameHeader {
  EnginePart kind = EnginePart::kNegotiation;
  std::uint32_t reserved = 0;  ///< Keeps the payload aligned as FlatBuffers wants it.
  std::uint64_t id = 0;

  static void fields(auto& wire, auto& self) { wire(self.kind, self.reserved, self.id); }
};
static_assert(sizeof(FrameHeader) == 16);

/// Header and payload in one buffer, which is reused from call to call.
inline std::span<const std::byte> make_frame(std::vector<std::byte>& buffer, FrameHeader header,
                                             std::span<const std::byte> payload) {
  WireWriter writer(std::move(buffer));
  writer(header);
  writer.raw(payload);
  buffer = writer.take();
  return buffer;
}

/// The header of a frame; nothing where it is too short or its kind unknown.
inline std::optional<FrameHeader> read_header(std::span<const std::byte> frame) {
  WireReader reader(frame, "frame");
  FrameHeader header;
  reader(header);
  const bool known = header.kind >= EnginePart::kNegotiation && header.kind <= EnginePart::kLaunch;
  return reader.ok() && known ? std::optional(header) : std::nullopt;
}

/// The payload that carries `status` with the rank it is about; its message is cut at 4 KiB.
std::vector<std::byte> make_failure(const Status& status);

/// Reads such a payload into `failure`. Errors: kInvalidArgument where it is malformed.
Status read_failure(std::span<const std::byte> payload, Status& failure);

}  // namespace ronde
