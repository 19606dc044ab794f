#include "ops/device/device_top.h"

#include <cstring>
#include <utility>

#include "ops/compression/registry.h"
#include "ops/memory/device_wait.h"

namespace ronde {
namespace {

constexpr std::size_t kElementBytes = sizeof(std::uint32_t) + sizeof(float);

std::size_t bytes_of_lists(std::size_t vectors, std::size_t elements) {
  return vectors * sizeof(std::uint32_t) + elements * kElementBytes;
}

}  // namespace

DeviceTopK::Lists::Lists(std::byte* memory, std::size_t vectors, std::size_t elements)
    : found(reinterpret_cast<std::uint32_t*>(memory)),
      indices(found + vectors),
      values(reinterpret_cast<float*>(indices + elements)) {}

DeviceTopK::DeviceTopK(std::shared_ptr<DeviceOps> device, DeviceResiduals& residuals,
                       std::function<void(std::string_view phase)> end_phase)
    : device_(std::move(device)),
      residuals_(residuals),
      end_phase_(std::move(end_phase)),
      copies_(device_, nullptr),
      memory_(copies_),
      memory_up_(copies_) {}

bool DeviceTopK::supports(const CompressionSpec& spec) const {
  return device_->codecs() != nullptr && is_sparse(spec.kind) && runs_on_devices(spec);
}

bool DeviceTopK::suits(const Work& work, const CompressedWork& compression) const {
  std::size_t listed = 0, all = 0;
  for (const CompressedPiece& piece : pieces_of(work)) {
    const CompressedTensor& tensor = compression.tensors()[piece.tensor];
    if (tensor.residual && tensor.residual->format() != ResidualFormat::kFp32) return false;
    const double ratio = share_of(compression.scheme().spec, tensor).ratio;
    if (piece.in != nullptr) listed += chosen_elements(ratio, piece.count) * kElementBytes;
    all += piece.count * sizeof(float);
  }
  return listed < all;
}

Status DeviceTopK::run(const Work& work, CompressedWork& compression, Transport& carrier,
                       const DeviceLaunchContext& context) {
  RONDE_RETURN_IF_ERROR(residuals_.find(compression.tensors(), context));
  list_vectors(work, compression);
  RONDE_RETURN_IF_ERROR(choose(work, context));
  end_phase_("COMPRESS");
  RONDE_ASSIGN_OR_RETURN(const DeviceEventPtr arrived, device_->record(context.stream));
  RONDE_RETURN_IF_ERROR(wait_on_host(*arrived, context.abort));
  RONDE_RETURN_IF_ERROR(run_metered(carrier, compression.facts(), [&](Transport& metered) {
    return exchange(metered, compression, context.abort);
  }));
  RONDE_RETURN_IF_ERROR(bring_up(context));
  end_phase_(context.carrier);
  RONDE_RETURN_IF_ERROR(add_kept(context));
  RONDE_RETURN_IF_ERROR(write_sums(work, context));
  RONDE_RETURN_IF_ERROR(residuals_.commit(work, context));
  end_phase_("DECOMPRESS");
  return {};
}

void DeviceTopK::list_vectors(const Work& work, const CompressedWork& compression) {
  vectors_.clear();
  elements_ = 0;
  for (const CompressedPiece& piece : pieces_of(work)) {
    if (piece.count == 0) continue;
    const SparseShare share =
        share_of(compression.scheme().spec, compression.tensors()[piece.tensor]);
    const std::size_t most = piece.in == nullptr ? 0 : chosen_elements(share.ratio, piece.count);
    vectors_.push_back({.piece = piece, .share = share, .most = most, .begin = elements_});
    elements_ += most;
  }
}

/// Queues the selection, then the copy of its lists to the host.
Status DeviceTopK::choose(const Work& work, const DeviceLaunchContext& context) {
  std::size_t all = 0, scratch = 0;
  for (const Vector& vector : vectors_) {
    all += vector.piece.count;
    scratch += scratch_of(vector);
  }
  const std::size_t left = device_room(all * sizeof(float));
  const std::size_t flags = device_room(residuals_.flag_bytes());
  const std::size_t lists = bytes_of_lists(vectors_.size(), elements_);
  std::byte* const memory = memory_.at_least(left + flags + scratch + lists);
  std::byte* const on_host = host_down_.at_least(lists, *device_);
  auto* at = reinterpret_cast<float*>(memory);
  RONDE_RETURN_IF_ERROR(residuals_.place(at, memory + left, context));
  for (Vector& vector : vectors_) {
    vector.left = at;
    at += vector.piece.count;
  }
  std::byte* const listed = memory + left + flags + scratch;
  brought_ = Lists(listed, vectors_.size(), elements_);
  chosen_ = Lists(on_host, vectors_.size(), elements_);
  RONDE_RETURN_IF_ERROR(select(work, memory + left + flags, context));
  if (elements_ == 0) return {};
  return device_->copy(on_host, listed, lists, context.stream);
}

/// Bytes that the choice of one vector works with.
std::size_t DeviceTopK::scratch_of(const Vector& vector) const {
  return vector.most == 0 ? 0 : device_room(device_->codecs()->select_scratch(vector.piece.count));
}

Status DeviceTopK::select(const Work& work, std::byte* scratch,
                          const DeviceLaunchContext& context) {
  const Reduction& reduction = work.reduction;
  std::vector<SelectRun> runs;
  for (std::size_t i = 0; i < vectors_.size(); ++i) {
    const Vector& vector = vectors_[i];
    if (vector.most == 0) continue;
    runs.push_back({.values = vector.piece.in,
                    .residual = residuals_.of(vector.piece.tensor),
                    .left = vector.left,
                    .indices = brought_.indices + vector.begin,
                    .chosen = brought_.values + vector.begin,
                    .found = brought_.found + i,
                    .scratch = scratch,
                    .factor = reduction.scaling.pre * reduction.scaling.post,
                    .count = vector.piece.count,
                    .most = vector.most});
    scratch += scratch_of(vector);
  }
  return device_->codecs()->select({.from = reduction.dtype, .runs = runs}, context.stream);
}

/// Gives the others what this rank has chosen, and takes the sums.
Status DeviceTopK::exchange(Transport& transport, CompressedWork& compression,
                            const AbortToken& abort) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  const auto me = static_cast<std::size_t>(transport.rank());
  SparseExchange exchange(transport, abort, compression.facts());
  for (std::size_t i = 0; i < vectors_.size(); ++i) {
    const Vector& vector = vectors_[i];
    const Interleave deal(vector.piece.count, ranks,
                          compression.tensors()[vector.piece.tensor].turn);
    const std::size_t found = vector.most == 0 ? 0 : chosen_.found[i];
    exchange.add(piece_of(compression.scheme().spec, vector.share, deal, me),
                 {chosen_.indices + vector.begin, found}, {chosen_.values + vector.begin, found});
  }
  indices_.clear();
  values_.clear();
  kept_.clear();
  sums_.clear();
  RONDE_RETURN_IF_ERROR(exchange.reduce([this](std::size_t vector, const SparseVector& sums) {
    if (residuals_.of(vectors_[vector].piece.tensor) != nullptr) take(kept_, vector, sums);
  }));
  return exchange.gather([this](std::size_t vector, const SparseVector& sums) {
    if (vectors_[vector].piece.out != nullptr) take(sums_, vector, sums);
  });
}

/// Notes elements of a vector that go up, after those of the vectors before.
void DeviceTopK::take(std::vector<Arrived>& to, std::size_t vector, const SparseVector& elements) {
  if (to.empty() || to.back().vector != vector) to.push_back({vector, indices_.size(), 0});
  to.back().count += elements.indices.size();
  indices_.insert(indices_.end(), elements.indices.begin(), elements.indices.end());
  values_.insert(values_.end(), elements.values.begin(), elements.values.end());
}

Status DeviceTopK::bring_up(const DeviceLaunchContext& context) {
  const std::size_t elements = indices_.size();
  const std::size_t bytes = bytes_of_lists(0, elements);
  if (bytes == 0) return {};
  std::byte* const on_host = host_up_.at_least(bytes, *device_);
  std::byte* const there = memory_up_.at_least(bytes);
  const Lists lists(on_host, 0, elements);
  std::memcpy(lists.indices, indices_.data(), elements * sizeof(std::uint32_t));
  std::memcpy(lists.values, values_.data(), elements * sizeof(float));
  brought_ = Lists(there, 0, elements);
  return device_->copy(there, on_host, bytes, context.stream);
}

ScatterRun DeviceTopK::run_of(const Arrived& arrived) const {
  return {.indices = brought_.indices + arrived.begin,
          .values = brought_.values + arrived.begin,
          .count = arrived.count};
}

/// Own sums that this rank does not pass on stay in the residual.
Status DeviceTopK::add_kept(const DeviceLaunchContext& context) {
  runs_.clear();
  for (const Arrived& kept : kept_) {
    runs_.push_back(run_of(kept));
    runs_.back().out = vectors_[kept.vector].left;
  }
  return device_->codecs()->scatter({.adds = true, .runs = runs_}, context.stream);
}

Status DeviceTopK::write_sums(const Work& work, const DeviceLaunchContext& context) {
  const DType dtype = work.reduction.dtype;
  for (const Vector& vector : vectors_) {
    if (vector.piece.out == nullptr) continue;
    copies_.copy(vector.piece.out, nullptr, vector.piece.count * size_of(dtype));
  }
  RONDE_RETURN_IF_ERROR(copies_.flush(context.stream));
  runs_.clear();
  for (const Arrived& sums : sums_) {
    const CompressedPiece& piece = vectors_[sums.vector].piece;
    runs_.push_back(run_of(sums));
    runs_.back().out = piece.out;
    runs_.back().flag = residuals_.flag(piece.tensor);
  }
  return device_->codecs()->scatter({.to = dtype, .runs = runs_}, context.stream);
}

}  // namespace ronde
