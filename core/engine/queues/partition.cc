#include "core/engine/queues/partition.h"

#include <algorithm>
#include <utility>

namespace ronde {
namespace {

constexpr std::size_t kCutAlign = 4096;  // of cuts within a tensor: whole pages, whole elements

std::size_t bytes_of(const BundleTensor& tensor, DType dtype) noexcept {
  return static_cast<std::size_t>(element_count(tensor.shape)) * size_of(dtype);
}

/// Fills partitions from the front of the bundle.
class Cutter {
 public:
  Cutter(ReadyBundle whole, std::size_t target_bytes)
      : whole_(std::move(whole)), target_(target_bytes) {}

  std::vector<ReadyBundle> cut() {
    open();
    for (std::size_t i = 0; i < whole_.operations.size(); ++i) add(i);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].bundle.partition = static_cast<int>(i) + 1;
    }
    return std::move(parts_);
  }

 private:
  void open() {
    ReadyBundle& part = parts_.emplace_back();
    part.bundle = whole_.bundle;
    part.bundle.tensors.clear();
    room_ = target_;
  }

  void add(std::size_t index) {
    const std::size_t bytes = bytes_of(whole_.bundle.tensors[index], whole_.bundle.dtype);
    std::size_t pieces = 0;
    std::size_t offset = 0;
    do {
      if (room_ == 0) open();
      const std::size_t piece = piece_bytes(bytes - offset);
      append(index, offset, piece, piece == bytes);
      room_ -= std::min(room_, piece);
      offset += piece;
      ++pieces;
    } while (offset < bytes);
    if (const OperationPtr& operation = whole_.operations[index]) {
      operation->add_pieces(pieces - 1);
    }
  }

  /// The bytes of a tensor's rest that go into the open partition.
  [[nodiscard]] std::size_t piece_bytes(std::size_t left) const noexcept {
    const std::size_t cut = (room_ + kCutAlign - 1) / kCutAlign * kCutAlign;
    return std::min(left, cut);
  }

  void append(std::size_t index, std::size_t offset, std::size_t bytes, bool is_whole) {
    ReadyBundle& part = parts_.back();
    const OperationPtr& operation = whole_.operations[index];
    BundleTensor tensor = whole_.bundle.tensors[index];
    if (!is_whole) {
      tensor.shape = {static_cast<std::int64_t>(bytes / size_of(whole_.bundle.dtype))};
      if (tensor.in != nullptr) tensor.in = static_cast<const std::byte*>(tensor.in) + offset;
      if (tensor.out != nullptr) {
        tensor.out = static_cast<std::byte*>(tensor.out) + offset;
      } else if (operation) {
        tensor.allocate = &part.allocators.emplace_back(operation->piece_allocator(offset));
      }
    }
    if (part.operations.empty()) part.priority = whole_.priorities[index];
    part.operations.push_back(operation);
    part.bundle.tensors.push_back(std::move(tensor));
  }

  const ReadyBundle whole_;
  const std::size_t target_;
  std::size_t room_ = 0;
  std::vector<ReadyBundle> parts_;
};

}  // namespace

std::size_t agreed_bytes(const Bundle& bundle) noexcept {
  if (traits_of(bundle.kind).shape != ShapeOf::kTensor) return 0;
  std::size_t sum = 0;
  for (const BundleTensor& tensor : bundle.tensors) sum += bytes_of(tensor, bundle.dtype);
  return sum;
}

std::vector<ReadyBundle> cut_bundle(ReadyBundle whole, std::size_t partition_bytes) {
  const std::size_t bytes = agreed_bytes(whole.bundle);
  std::vector<ReadyBundle> parts;
  const bool can = traits_of(whole.bundle.kind).element_wise() && whole.bundle.compression.empty();
  if (partition_bytes == 0 || bytes <= partition_bytes || !can) {
    parts.push_back(std::move(whole));
    return parts;
  }
  const std::size_t count = (bytes - 1) / partition_bytes + 1;
  return Cutter(std::move(whole), (bytes - 1) / count + 1).cut();
}

}  // namespace ronde
