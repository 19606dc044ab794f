#include "ops/device/device_compression.h"

#include <algorithm>
#include <utility>

#include "ops/compression/registry.h"

namespace ronde {
namespace {

// A slice's frames are in memory several times over.
constexpr std::size_t kDeviceSliceElements = std::size_t{1} << 24;

/// A collective of frames.
Work work_of(Collective kind, const Segment& segment) {
  Work work;
  work.kind = kind;
  work.reduction.dtype = DType::kUint8;
  work.segments = {&segment, 1};
  return work;
}

}  // namespace

DeviceCompression::DeviceCompression(std::shared_ptr<DeviceOps> device, DeviceResiduals& residuals,
                                     int rank, int size,
                                     std::function<void(std::string_view phase)> end_phase)
    : device_(std::move(device)),
      residuals_(residuals),
      end_phase_(std::move(end_phase)),
      me_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(size)),
      copies_(device_, nullptr),
      memory_(copies_) {}

bool DeviceCompression::supports(const CompressionSpec& spec) const {
  return device_->codecs() != nullptr && codec_row(spec.kind).device_format &&
         runs_on_devices(spec);
}

Status DeviceCompression::run(const Work& work, CompressedWork& compression, Communicator& carrier,
                              const DeviceLaunchContext& context) {
  const CompressionSpec& spec = compression.scheme().spec;
  Bundled bundle{
      .work = work,
      .compression = compression,
      .carrier = carrier,
      .context = context,
      .code = {*codec_row(spec.kind).device_format, spec.stochastic, compression.codec().block()},
      .pieces = pieces_of(work)};
  bundle.slices = partition(bundle.pieces, compression, ranks_, kDeviceSliceElements);
  RONDE_RETURN_IF_ERROR(residuals_.find(compression.tensors(), context));
  RONDE_RETURN_IF_ERROR(lay_out(bundle));
  for (const Slice& slice : bundle.slices) {
    RONDE_RETURN_IF_ERROR(send_chunks(bundle, slice));
    RONDE_RETURN_IF_ERROR(send_sums(bundle, slice));
    RONDE_RETURN_IF_ERROR(decode(bundle, slice));
    compression.facts().wire_bytes += sent_bytes(slice) + (ranks_ - 1) * slice.bytes[me_];
  }
  const Status status = residuals_.commit(work, context);
  end_phase_("DECOMPRESS");
  return status;
}

/// Bytes for the other ranks.
std::size_t DeviceCompression::sent_bytes(const Slice& slice) const {
  return slice.all_bytes() - slice.bytes[me_];
}

/// Slices share their memory: they follow one another in the stream.
Status DeviceCompression::lay_out(Bundled& bundle) {
  std::size_t sent = 0, received = 0, gathered = 0;
  for (const Slice& slice : bundle.slices) {
    sent = std::max(sent, device_room(sent_bytes(slice)));
    received = std::max(received, device_room((ranks_ - 1) * slice.bytes[me_]));
    gathered = std::max(gathered, device_room(slice.all_bytes()));
  }
  const std::size_t flags = device_room(residuals_.flag_bytes());
  const std::size_t left = residuals_.keeps() ? count_elements(bundle.pieces) * sizeof(float) : 0;
  bundle.sent = memory_.at_least(sent + received + gathered + flags + left);
  bundle.received = bundle.sent + sent;
  bundle.gathered = bundle.received + received;
  if (!residuals_.keeps()) return {};
  std::byte* const at = bundle.gathered + gathered;
  bundle.left = reinterpret_cast<float*>(at + flags);
  return residuals_.place(bundle.left, at, bundle.context);
}

/// Adds runs that encode the elements of `owner` into consecutive frames. `added`: received frames
/// of its first run.
void DeviceCompression::add_encode_runs(const Bundled& bundle, const Slice& slice,
                                        std::size_t owner, std::byte* frame,
                                        const std::byte* added) {
  const CompressedWork& compression = bundle.compression;
  const std::size_t element = size_of(bundle.work.reduction.dtype);
  for (const OwnedRun& run : slice.runs[owner]) {
    const CompressedPiece& piece = bundle.pieces[run.piece];
    const std::size_t offset = piece.begin + run.begin;
    float* const residual = residuals_.of(piece.tensor);
    encode_runs_.push_back(
        {.values = piece.in == nullptr ? nullptr : piece.in + run.begin * element,
         .residual = residual == nullptr ? nullptr : residual + offset,
         .lost = residual == nullptr ? nullptr : bundle.left + slice.begin + run.at,
         .added = added,
         .frame = frame,
         .count = run.count,
         .offset = offset,
         .key = compression::fold_key(compression.tensors()[piece.tensor].key)});
    const std::size_t bytes = compression.codec().encoded_bytes(run.count);
    frame += bytes;
    if (added != nullptr) added += bytes;
  }
}

Status DeviceCompression::encode(const Bundled& bundle, std::size_t added_frames,
                                 std::size_t added_stride) {
  const Reduction& reduction = bundle.work.reduction;
  const Status status =
      device_->codecs()->encode({.code = bundle.code,
                                 .from = reduction.dtype,
                                 .factor = reduction.scaling.pre * reduction.scaling.post,
                                 .added_frames = added_frames,
                                 .added_stride = added_stride,
                                 .runs = encode_runs_},
                                bundle.context.stream);
  encode_runs_.clear();
  return status;
}

/// Sends each owner its chunk of this rank's values.
Status DeviceCompression::send_chunks(const Bundled& bundle, const Slice& slice) {
  send_bytes_ = slice.bytes;
  recv_bytes_.assign(ranks_, slice.bytes[me_]);
  send_bytes_[me_] = recv_bytes_[me_] = 0;
  std::byte* frame = bundle.sent;
  for (std::size_t owner = 0; owner < ranks_; ++owner) {
    if (owner != me_) add_encode_runs(bundle, slice, owner, frame, nullptr);
    frame += send_bytes_[owner];
  }
  RONDE_RETURN_IF_ERROR(encode(bundle, 0, 0));
  end_phase_("COMPRESS");
  // `bytes` is the same on all ranks, as how the frames travel is chosen by it.
  const Segment segment{bundle.sent, bundle.received, slice.all_bytes()};
  Work work = work_of(Collective::kAlltoall, segment);
  work.send_bytes = send_bytes_;
  work.recv_bytes = recv_bytes_;
  work.bytes = segment.bytes;
  RONDE_RETURN_IF_ERROR(bundle.carrier.run(work, bundle.context.stream, bundle.context.abort));
  end_phase_(bundle.context.carrier);
  return {};
}

/// Sends all ranks the sum of this rank's own chunk.
Status DeviceCompression::send_sums(const Bundled& bundle, const Slice& slice) {
  std::byte* mine = bundle.gathered;
  for (std::size_t rank = 0; rank < me_; ++rank) mine += slice.bytes[rank];
  add_encode_runs(bundle, slice, me_, mine, bundle.received);
  RONDE_RETURN_IF_ERROR(encode(bundle, ranks_ - 1, slice.bytes[me_]));
  end_phase_("ADD");
  const Segment segment{mine, bundle.gathered, slice.all_bytes()};
  Work work = work_of(Collective::kAllgather, segment);
  work.chunk_bytes = slice.bytes;
  work.bytes = segment.bytes;
  RONDE_RETURN_IF_ERROR(bundle.carrier.run(work, bundle.context.stream, bundle.context.abort));
  end_phase_(bundle.context.carrier);
  return {};
}

Status DeviceCompression::decode(const Bundled& bundle, const Slice& slice) {
  const DType dtype = bundle.work.reduction.dtype;
  const std::byte* frame = bundle.gathered;
  for (const auto& runs : slice.runs) {
    for (const OwnedRun& run : runs) {
      const CompressedPiece& piece = bundle.pieces[run.piece];
      std::byte* const out =
          piece.out == nullptr ? nullptr : piece.out + run.begin * size_of(dtype);
      if (out != nullptr) {
        decode_runs_.push_back({.frame = frame,
                                .out = out,
                                .flag = residuals_.flag(piece.tensor),
                                .count = run.count});
      }
      frame += bundle.compression.codec().encoded_bytes(run.count);
    }
  }
  const Status status = device_->codecs()->decode(
      {.code = bundle.code, .to = dtype, .runs = decode_runs_}, bundle.context.stream);
  decode_runs_.clear();
  return status;
}

}  // namespace ronde
