// Frames between the ranks of a job. It never depends on the data backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/topology.h"

namespace ronde {

inline constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 20;

/// The thread of this process that a frame wakes when none is polling.
enum class Sleeper : std::uint8_t {
  kBackground,  ///< The background thread: the default while no caller waits.
  kCaller,      ///< A caller that waits for its operation and has stopped spinning.
};

/// Receives what poll() finds. Called in the polling thread; must not call the channel's poll.
class ChannelSink {
 public:
  virtual ~ChannelSink() = default;
  /// One whole frame; `frame` is valid during the call only. Frames of one sender come in order.
  virtual void on_frame(int from, std::span<const std::byte> frame) = 0;
  /// A rank died or was cut off; `reason` names it. Reported once per rank.
  virtual void on_peer_lost(int rank, const Status& reason) = 0;
  /// A rank closed its channel on purpose, after all its frames were delivered; nothing is broken,
  /// but it takes part in nothing any more. `reason` names it. Reported once per rank.
  virtual void on_peer_left(int rank, const Status& reason) = 0;
};

/// Authenticated, ordered, reliable frames between all ranks of a job.
///
/// "Polling" is the role of the one thread that holds the engine's driving right. While some
/// thread polls, peers' frames cost no system call. When it stops it names, by prepare_wait(), the
/// thread that peers are to wake from then on.
///
/// A channel is made with the job's AbortToken. A thread of the channel aborts it as soon as a rank
/// is lost, not when one leaves. The polling thread may be inside a collective that waits for that
/// rank.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;

  /// The job, as agreed when the channel was joined. Threads: any.
  [[nodiscard]] virtual const Topology& topology() const noexcept = 0;

  /// Queues one frame of at most kMaxFrameBytes to `to` (any rank but this one).
  /// Blocks: never; what does not fit now is sent by later polls. Threads: polling thread only.
  /// Errors: kRankFailure where `to` is known to be lost, kInvalidArgument where it is too long.
  virtual Status send(int to, std::span<const std::byte> frame) = 0;

  /// Moves queued frames on and delivers what has arrived to `sink`; true where anything was
  /// delivered. Blocks: never. Threads: polling thread only. Marks this process as polling.
  virtual bool poll(ChannelSink& sink) = 0;

  /// Wakes those peers that sleep with frames of ours unread. Call it before sleeping, before
  /// giving up the polling role, and after spinning for long. Do not call it before spinning, so
  /// that peers that poll soon cost no system call. False if frames remain unsent until later
  /// polls. Blocking then can deadlock. Threads: polling thread only.
  virtual bool kick() noexcept = 0;

  /// Names the thread to wake from now on and returns a ticket for wait(). Poll once more between
  /// this and wait(): a frame that came before wakes no thread. Threads: polling thread only.
  virtual std::uint32_t prepare_wait(Sleeper who) noexcept = 0;

  /// Sleeps in the kernel until a frame for `who` or a wake(who) came after the ticket was taken.
  /// Also ends when a peer is lost or the deadline passes. May return early. Threads: one per
  /// Sleeper.
  virtual void wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept = 0;

  /// Ends the current or next wait of `who`. Threads: any; safe in signal handlers.
  virtual void wake(Sleeper who) noexcept = 0;

  /// Tells all peers that this rank leaves on purpose and releases everything. Idempotent.
  virtual void close() noexcept = 0;
};

}  // namespace ronde
