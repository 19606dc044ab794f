// The timeline's port: engine and executor report their work to it. Off costs one branch.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/collective.h"

namespace ronde {

/// The measurements of a compressed operation on this rank.
struct CompressionFacts {
  std::uint64_t wire_bytes = 0;  ///< Bytes that this rank sent.
  std::int64_t compress_ns = 0;  ///< Also all time that belongs to neither of the others.
  std::int64_t wire_ns = 0;      ///< Waiting for the wire.
  std::int64_t decompress_ns = 0;

  bool operator==(const CompressionFacts&) const = default;
};

/// Facts shown with an event; zero and empty fields are left out.
struct EventArgs {
  std::optional<Collective> collective = {};  ///< Of a negotiation or of the work that follows it.
  std::uint64_t bytes = 0;
  std::string_view algorithm = {};
  std::string_view backend = {};
  int tensors = 0;
  std::uint64_t bundle = 0;  ///< Bundle::id.
  int partition = 0;         ///< Bundle::partition.
  std::int64_t pack_ns = 0;  ///< Spent on copies into and out of a fusion buffer.
  CompressionFacts compression = {};
  /// The time by the steady clock; 0: now. A known time saves a reading of the clock.
  std::int64_t at_ns = 0;

  /// Calls `use(name, field)` for each fact, in the order of a trace. Recorder, reader, merge and
  /// profiler know the facts by this list. Times have type std::int64_t: nanoseconds here,
  /// microseconds in a trace.
  template <typename Args, typename Use>
  static void fields(Args& args, Use&& use) {
    use("collective", args.collective);
    use("bytes", args.bytes);
    use("tensors", args.tensors);
    use("bundle", args.bundle);
    use("partition", args.partition);
    use("pack_us", args.pack_ns);
    use("wire_bytes", args.compression.wire_bytes);
    use("compress_us", args.compression.compress_ns);
    use("wire_us", args.compression.wire_ns);
    use("decompress_us", args.compression.decompress_ns);
    use("algorithm", args.algorithm);
    use("backend", args.backend);
  }

  bool operator==(const EventArgs&) const = default;
};

/// The counter of training steps that this rank has finished.
inline constexpr std::string_view kStepCounter = "step";
/// The counter of the milliseconds in which the training thread was ready to run and had no core.
inline constexpr std::string_view kCoreWaitCounter = "ready without a core in ms";
/// The track of the user's marks and that of the threads which wait for operations. Tracks of
/// tensors contain a dot.
inline constexpr std::string_view kMarksTrack = "marks";
inline constexpr std::string_view kWaitTrack = "waiting";
/// Spans of the waiting track: for a collective, and for a message between two ranks.
inline constexpr std::string_view kWaitSpan = "WAIT";
inline constexpr std::string_view kMessageWaitSpan = "WAIT FOR MESSAGE";
/// Tracks of the messages with another rank, whose number follows. A span begins once its message
/// is submitted and the track's earlier ones have ended.
inline constexpr std::string_view kSendTrack = "send to rank ";
inline constexpr std::string_view kRecvTrack = "recv from rank ";
/// The track of a binding's training phases: forward, backward, update.
inline constexpr std::string_view kPassesTrack = "passes";
/// The track of a worker's epochs in an elastic job, and that of its transitions between them.
inline constexpr std::string_view kEpochsTrack = "epochs";
inline constexpr std::string_view kRecoveryTrack = "recovery";
/// A transition to the next epoch, after a failure or a change of workers, and its parts in order.
inline constexpr std::string_view kRecoverySpan = "RECOVERY";
inline constexpr std::string_view kChangeSpan = "CHANGE OF WORKERS";
inline constexpr std::string_view kLeavePart = "leave the epoch";
inline constexpr std::string_view kWaitPart = "wait for the next epoch";
inline constexpr std::string_view kConnectPart = "connect";
inline constexpr std::string_view kFirstOperationPart = "first operation";
/// The track of connections between hosts, and a time in which one did not work.
inline constexpr std::string_view kConnectionsTrack = "connections";
inline constexpr std::string_view kOutageSpan = "OUTAGE";
/// The counter of the step that an elastic job has committed last.
inline constexpr std::string_view kCommitCounter = "committed step";

/// The track of an operation's tensors, "allreduce.layer1/weight": all unnamed ones of a kind have
/// one track.
inline std::string tensor_track(Collective kind, std::string_view name) {
  std::string track(to_string(kind));
  track += '.';
  track += name.empty() ? "unnamed" : name;
  return track;
}

/// From when to when, on the steady clock.
struct TimeSpan {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

/// Threads: any. Blocks: never (events are dropped and counted when the recorder cannot keep up).
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// Opens a span called `event` on the track of tensor `track`.
  virtual void begin(std::string_view track, std::string_view event, const EventArgs& args) = 0;
  /// Closes the innermost open span of the track.
  virtual void end(std::string_view track, const EventArgs& args) = 0;
  /// Opens a span on each of the tracks at one moment: the tensors of a bundle. Costs little more
  /// than on one track where the sink is made for it.
  virtual void begin_all(std::span<const std::string_view> tracks, std::string_view event,
                         const EventArgs& args) {
    for (const std::string_view track : tracks) begin(track, event, args);
  }
  /// Closes the innermost open span of each of the tracks. As begin_all.
  virtual void end_all(std::span<const std::string_view> tracks, const EventArgs& args) {
    for (const std::string_view track : tracks) end(track, args);
  }
  /// A span that is over: device work is reported late. Spans of a track come in order.
  virtual void span(std::string_view track, std::string_view event, TimeSpan times,
                    const EventArgs& args) = 0;
  virtual void instant(std::string_view track, std::string_view event) = 0;
  virtual void counter(std::string_view name, double value) = 0;
};

/// Holds the sink while the timeline is on. The timeline can be switched in a running job. Threads:
/// any. A sink that was ever set lives as long as the runtime.
class EventSwitch {
 public:
  /// The sink, or null while the timeline is off.
  [[nodiscard]] EventSink* get() const noexcept { return sink_.load(std::memory_order_acquire); }
  void set(EventSink* sink) noexcept { sink_.store(sink, std::memory_order_release); }

 private:
  std::atomic<EventSink*> sink_{nullptr};
};

}  // namespace ronde
