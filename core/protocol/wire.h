// Frames as bytes, in the wire codec: each frame names its fields in frames.h. The reader checks
// the range of every value. Each receiver checks what depends on its state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/protocol/frames.h"

namespace ronde {

/// The largest frame, which is that of the control channel.
inline constexpr std::size_t kMaxNegotiationFrameBytes = std::size_t{1} << 20;
/// The largest wire_bytes() of a valid request.
inline constexpr std::size_t kMaxRequestBytes = std::size_t{384} << 10;

/// An upper bound of the bytes that the request takes in a frame.
std::size_t wire_bytes(const Request& request) noexcept;

/// The kind of a frame: its first byte.
enum class FrameKind : std::uint8_t { kTick, kBatch, kQuery, kWarning };

/// Decodes frames. Keeps the last one, so that its memory is reused.
class FrameReader {
 public:
  /// Decodes one frame into the member that goes with the kind returned.
  /// Errors: kInvalidArgument where it is malformed; the members are then undefined.
  Result<FrameKind> read(std::span<const std::byte> frame);

  TickFrame tick;
  BatchFrame batch;
  QueryFrame query;
  WarningFrame warning;
};

/// Receives each encoded frame; the bytes are valid during the call.
using FrameSink = std::function<void(std::span<const std::byte>)>;

/// Encodes frames. Splits what does not fit into one.
class FrameWriter {
 public:
  /// One frame or several: the first carries the bits, the last whether all have joined.
  void write(const TickFrame& tick, const FrameSink& sink);
  /// One frame; the caller keeps it below the limit with wire_bytes(item).
  void write(const BatchFrame& batch, const FrameSink& sink);
  void write(const QueryFrame& query, const FrameSink& sink);
  void write(const WarningFrame& warning, const FrameSink& sink);

 private:
  template <typename Body>
  void send(FrameKind kind, const Body& body, const FrameSink& sink);

  std::vector<std::byte> bytes_;  // of the last frame, used again
};

/// An upper bound of the bytes that the item takes in a frame.
std::size_t wire_bytes(const BatchItem& item) noexcept;

}  // namespace ronde
