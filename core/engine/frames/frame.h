// Frames between engines: a header names the part of the engine that the payload is for. They are
// sent here, and held while the driving thread is busy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/base/wire_codec.h"
#include "core/ports/control_channel.h"
#include "core/protocol/frames.h"

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
  std::uint32_t reserved = 0;  ///< Keeps the payload aligned.
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

/// Sends frames to other engines, each with the header of the part that it is for.
/// Threads: the driving thread.
class FrameSender {
 public:
  /// `abort`: the job's, which an error of the channel breaks. The channel reports ranks that are
  /// lost or have left by itself, so frames to them are dropped. Both outlive the sender.
  FrameSender(ControlChannel& channel, AbortToken& abort) : channel_(channel), abort_(abort) {}

  /// The ranks that it reaches, and this one.
  [[nodiscard]] const Topology& topology() const noexcept { return channel_.topology(); }
  /// Adds a frame's payload for the next send().
  void add(int to, std::vector<std::byte> payload) { frames_.push_back({to, std::move(payload)}); }
  /// As add(), for parts that append all their frames.
  std::vector<OutFrame>& frames() noexcept { return frames_; }
  /// Sends all frames added since the last call. Blocks: never.
  void send(EnginePart kind, std::uint64_t id) {
    for (const OutFrame& frame : frames_) {
      const Status status =
          channel_.send(frame.to, make_frame(buffer_, {.kind = kind, .id = id}, frame.bytes));
      if (!status.ok() && status.code() != Code::kRankFailure) abort_.abort(status);
    }
    frames_.clear();
  }

 private:
  ControlChannel& channel_;
  AbortToken& abort_;
  std::vector<OutFrame> frames_;
  std::vector<std::byte> buffer_;  // reused
};

/// Keeps all that comes while the driving thread runs agreed work, in order. A failure of the job
/// ends the work's waits at once. Threads: the driving thread.
class HeldFrames final : public ChannelSink {
 public:
  /// `abort`: the job's. It outlives this.
  explicit HeldFrames(AbortToken& abort) : abort_(abort) {}

  void on_frame(int from, std::span<const std::byte> frame) override;
  void on_peer_lost(int rank, const Status& reason) override;
  void on_peer_left(int rank, const Status& reason) override;

  /// Gives all to `sink`; true where there was anything.
  bool deliver(ChannelSink& sink);

 private:
  AbortToken& abort_;
  std::vector<std::function<void(ChannelSink&)>> held_;
};

}  // namespace ronde
