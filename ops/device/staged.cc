#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "ops/device/device_parts.h"
#include "ops/memory/device_wait.h"
#include "ops/memory/fusion_buffer.h"
#include "ops/memory/memory.h"

namespace ronde {
namespace {

/// The bytes by which all ranks choose the algorithm. In an alltoall ranks send different numbers
/// of bytes, on which they have not agreed here.
std::size_t common_bytes(Collective kind, std::size_t bytes) {
  return traits_of(kind).has_splits() ? std::numeric_limits<std::size_t>::max() : bytes;
}

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::shared_ptr<DeviceOps> device, DeviceStream up, Communicator& host,
                     int rank, int size)
      : Communicator({.name = host.traits().name,
                      .supports = SupportTable::of([](auto...) { return true; }),
                      .memory = DeviceKind::kCuda}),
        device_(std::move(device)),
        up_(up),
        host_(host),
        rank_(rank),
        size_(size) {}

  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override {
    const SideBytes bytes = side_bytes(work, rank_, size_);
    const Segment& segment = work.segments.front();
    const bool element_wise = traits_of(work.kind).element_wise();
    const bool in_place = bytes.in == bytes.out && element_wise;
    std::byte* in = in_.at_least(bytes.in, *device_);
    std::byte* out = in_place ? in : out_.at_least(bytes.out, *device_);
    const std::size_t piece = element_wise ? kStagedPieceBytes : segment.bytes;
    RONDE_RETURN_IF_ERROR(bring_down(segment, in, bytes.in, piece, stream));
    const Segment on_host{bytes.in == 0 ? nullptr : in, bytes.out == 0 ? nullptr : out,
                          segment.bytes};
    std::size_t begin = 0;
    do {  // ranks run the collective for an empty tensor too
      const std::size_t length = std::min(piece, segment.bytes - begin);
      RONDE_RETURN_IF_ERROR(wait_for_piece(piece == 0 ? 0 : begin / piece, abort));
      RONDE_RETURN_IF_ERROR(run_piece(work, on_host, begin, length, abort));
      if (bytes.out != 0) {
        const std::size_t copied = element_wise ? length : bytes.out;
        RONDE_RETURN_IF_ERROR(device_->copy(segment.out + begin, out + begin, copied, up_));
      }
      begin += length;
    } while (begin < segment.bytes);
    RONDE_ASSIGN_OR_RETURN(const DeviceEventPtr done, device_->record(up_));
    return device_->wait(stream, *done);
  }

 private:
  /// Queues the copies to the host and notes the event after each piece.
  Status bring_down(const Segment& segment, std::byte* in, std::size_t bytes, std::size_t piece,
                    DeviceStream stream) {
    arrived_.clear();
    std::size_t begin = 0;
    do {
      const std::size_t length = std::min(piece, bytes - begin);
      RONDE_RETURN_IF_ERROR(device_->copy(in + begin, segment.in + begin, length, stream));
      RONDE_ASSIGN_OR_RETURN(DeviceEventPtr event, device_->record(stream));
      arrived_.push_back(std::move(event));
      begin += length;
    } while (begin < bytes);
    return {};
  }

  /// Ranks that bring nothing down wait for what their stream did before, and no more.
  Status wait_for_piece(std::size_t index, const AbortToken& abort) const {
    return wait_on_host(*arrived_[std::min(index, arrived_.size() - 1)], abort);
  }

  Status run_piece(const Work& work, const Segment& whole, std::size_t begin, std::size_t length,
                   const AbortToken& abort) {
    const Segment part{whole.in == nullptr ? nullptr : whole.in + begin,
                       whole.out == nullptr ? nullptr : whole.out + begin, length};
    Work piece = work;
    piece.segments = {&part, 1};
    piece.bytes = common_bytes(work.kind, length);
    return host_.run(piece, kNoStream, abort);
  }

  const std::shared_ptr<DeviceOps> device_;
  const DeviceStream up_;  // beside the stream of the work: copies both ways at the same time
  Communicator& host_;
  const int rank_;
  const int size_;
  HostMemory in_;
  HostMemory out_;
  std::vector<DeviceEventPtr> arrived_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> create_staged(std::shared_ptr<DeviceOps> device,
                                                    Communicator& host, int rank, int size) {
  RONDE_ASSIGN_OR_RETURN(const DeviceStream up, device->open_stream());
  return std::unique_ptr<Communicator>(
      std::make_unique<StagedCommunicator>(std::move(device), up, host, rank, size));
}

}  // namespace ronde
