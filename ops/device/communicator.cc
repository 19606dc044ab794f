#include "ops/device/communicator.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "ops/device/device_parts.h"
#include "ops/memory/device_wait.h"

namespace ronde {
namespace {

/// The communicator of the device: of two levels if there is one inside hosts and a transport
/// between them.
std::unique_ptr<Communicator> own_of(DeviceParts parts, AlgorithmCommunicator& host) {
  if (!parts.inside || host.transport() == nullptr) return std::move(parts.whole);
  return create_device_hierarchical(std::move(parts), host);
}

}  // namespace

DeviceCommunicator::Opened::Opened(DeviceParts parts, const Options& options,
                                   AlgorithmCommunicator& host,
                                   const std::function<void(std::string_view phase)>& end_phase)
    : device(parts.device),
      chain(parts.chain),
      own(own_of(std::move(parts), host)),
      copies(device, own.get()),
      buffer(copies, options.rank, options.size),
      times(device, options.track),
      residuals(device),
      compression(device, residuals, options.rank, options.size, end_phase),
      top(device, residuals, end_phase) {}

DeviceCommunicator::DeviceCommunicator(Options options, AlgorithmCommunicator& host)
    : CompressedCommunicator({.name = "device",
                              .supports = SupportTable::of([](auto...) { return true; }),
                              .memory = DeviceKind::kCuda}),
      options_(std::move(options)),
      host_(host) {}

DeviceCommunicator::~DeviceCommunicator() { report_times(); }

Status DeviceCommunicator::open(int index) {
  if (!options_.open) return {Code::kUnsupported, "only tensors in host memory are supported"};
  RONDE_ASSIGN_OR_RETURN(DeviceParts parts, options_.open(index));
  const auto mark = [this](std::string_view phase) { end_phase(phase); };
  auto opened = std::make_unique<Opened>(std::move(parts), options_, host_, mark);
  RONDE_ASSIGN_OR_RETURN(opened->stream, opened->device->open_stream());
  opened->copies.work_on(opened->stream);
  RONDE_ASSIGN_OR_RETURN(opened->staged,
                         create_staged(opened->device, host_, options_.rank, options_.size));
  opened_ = std::move(opened);
  return {};
}

Status DeviceCommunicator::begin(const Bundle& bundle, const AbortToken& abort) {
  launched_ = false;
  if (!opened_) {
    // Communicators are made in the order of launches too: it may wait for the device's work.
    if (bundle.turn != nullptr) RONDE_RETURN_IF_ERROR(bundle.turn->wait(abort).status());
    RONDE_RETURN_IF_ERROR(open(bundle.device.index));
  }
  const DeviceEvent* last = nullptr;  // tensors of one operation share their event
  for (const BundleTensor& tensor : bundle.tensors) {
    if (tensor.ready == nullptr || tensor.ready == last) continue;
    last = tensor.ready;
    RONDE_RETURN_IF_ERROR(opened_->device->wait(opened_->stream, *last));
  }
  report_times();
  if (listener_ != nullptr) opened_->times.begin(opened_->stream, bundle.id);
  return {};
}

Status DeviceCommunicator::run(const Work& work, DeviceStream /*stream*/, const AbortToken& abort) {
  try {
    return is_bound() ? launch_compressed(work, abort) : launch(work, abort);
  } catch (const std::bad_alloc&) {
    return out_of_memory(*opened_->device, to_string(work.kind), total_bytes(work));
  }
}

Status DeviceCommunicator::launch(const Work& work, const AbortToken& abort) {
  if (work.segments.empty()) return {};
  Opened& on = *opened_;
  const FlatWork flat = on.buffer.flatten(work, *host_.kernels(), abort);
  RONDE_RETURN_IF_ERROR(on.copies.flush(on.stream));
  const bool fused = work.segments.size() > 1;
  if (fused) end_phase("PACK");
  RONDE_RETURN_IF_ERROR(join_chain());
  const Segment segment{flat.in, flat.out, flat.bytes};
  RONDE_RETURN_IF_ERROR(carrier().run(work_of(flat, segment, work), on.stream, abort));
  end_phase(path_name_);
  on.buffer.unflatten(work);
  RONDE_RETURN_IF_ERROR(on.copies.flush(on.stream));
  if (fused) end_phase("UNPACK");
  return {};
}

/// Work for the device's communicator comes after that of all other groups so far.
Status DeviceCommunicator::join_chain() {
  Opened& on = *opened_;
  if (!uses_own() || !on.chain) return {};
  launched_ = true;
  return on.chain->join(*on.device, on.stream);
}

Status DeviceCommunicator::launch_compressed(const Work& work, const AbortToken& abort) {
  Opened& on = *opened_;
  const DeviceLaunchContext context{on.stream, abort, path_name_};
  if (path_ == Path::kLists) return on.top.run(work, bound(), *host_.transport(), context);
  RONDE_RETURN_IF_ERROR(join_chain());
  return on.compression.run(work, bound(), carrier(), context);
}

void DeviceCommunicator::end_phase(std::string_view phase) {
  if (listener_ != nullptr) opened_->times.end_phase(opened_->stream, phase);
}

void DeviceCommunicator::report_times() {
  if (!opened_ || options_.events == nullptr) return;
  EventSink* const before = std::exchange(listener_, options_.events->get());
  if (listener_ != before) opened_->times.forget();  // it was begun for another recording
  if (listener_ != nullptr) opened_->times.report(*listener_);
}

Facts DeviceCommunicator::facts_of(Collective kind, DType dtype, ReduceOp op) const {
  const Communicator* const own = opened_->own.get();
  return static_cast<Facts>(Fact::kOnDevice) | when(options_.size == 1, Fact::kOneRank) |
         when(own != nullptr && own->traits().supports.has(kind, dtype, op), Fact::kNative) |
         when(host_.transport() != nullptr, Fact::kTransport) |
         when(options_.host_levels, Fact::kLevels);
}

/// Only work for the device's communicator needs its turn.
Status DeviceCommunicator::choose(Facts facts, const Bundle& bundle, const AbortToken& abort) {
  path_ = select_path(facts);
  if (uses_own() && bundle.turn != nullptr) {
    RONDE_ASSIGN_OR_RETURN(const bool mine, bundle.turn->wait(abort));
    path_ = select_path(facts | when(!mine, Fact::kNoLaunchOrder));
  }
  const std::string_view host = options_.size == 1 ? std::string_view() : host_.traits().name;
  const std::string_view own = uses_own() ? opened_->own->traits().name : std::string_view();
  path_name_ = path_name(path_, {.communicator = host, .device = own});
  return {};
}

Status DeviceCommunicator::choose(const Bundle& bundle, const Work& work, const AbortToken& abort) {
  return choose(facts_of(work.kind, work.reduction.dtype, work.reduction.op), bundle, abort);
}

/// Frames travel to their owners, and back by the path of an allgather of bytes.
Result<Path> DeviceCommunicator::choose_compressed(const Bundle& bundle, const Work& work,
                                                   const CompressedWork& compression,
                                                   const AbortToken& abort) {
  const CompressionSpec& spec = compression.scheme().spec;
  const bool lists = opened_->top.supports(spec);
  const Facts facts = facts_of(Collective::kAlltoall, DType::kUint8, ReduceOp::kSum) |
                      Fact::kCompressed |
                      when(!lists && opened_->compression.supports(spec), Fact::kDeviceFrames) |
                      when(lists, Fact::kDeviceLists) |
                      when(lists && !opened_->top.suits(work, compression), Fact::kListsAreLonger);
  RONDE_RETURN_IF_ERROR(choose(facts, bundle, abort));
  return path_;
}

Result<std::span<const Segment>> DeviceCommunicator::bring_losses(const Work& work,
                                                                  CompressedWork& compression,
                                                                  const AbortToken& abort) {
  const std::size_t tensors = work.segments.size();
  const std::size_t element = size_of(work.reduction.dtype);
  const std::vector<const float*> left = opened_->residuals.left_over(work);
  std::vector<Segment> there;
  for (const Segment& segment : work.segments) {
    there.push_back({segment.out, segment.out, segment.bytes});
  }
  for (std::size_t i = 0; i < tensors; ++i) {
    const std::size_t bytes = work.segments[i].bytes / element * sizeof(float);
    there.push_back({reinterpret_cast<const std::byte*>(left[i]), nullptr, bytes});
  }
  RONDE_ASSIGN_OR_RETURN(const auto here, bring_down(there, abort));
  for (std::size_t i = 0; i < tensors; ++i) {
    const Segment& segment = here[tensors + i];
    if (segment.in == nullptr) continue;
    compression.leave(i, 0,
                      {reinterpret_cast<const float*>(segment.in), segment.bytes / sizeof(float)});
  }
  return here.first(tensors);
}

Status DeviceCommunicator::multiply(DType dtype, const Segment& segment, double factor) {
  const DeviceCopy copy{segment.in, segment.out, segment.bytes / size_of(dtype)};
  return opened_->device->transform({dtype, dtype, factor, {&copy, 1}}, opened_->stream);
}

Status DeviceCommunicator::end(const Bundle& bundle, const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const DeviceEventPtr done, opened_->device->record(opened_->stream));
  if (launched_) opened_->chain->extend(opened_->stream, done);
  bool taken = false;
  for (const BundleTensor& tensor : bundle.tensors) {
    if (tensor.complete == nullptr) continue;
    *tensor.complete = done;
    taken = true;
  }
  return taken ? Status() : wait_on_host(*done, abort);
}

}  // namespace ronde
