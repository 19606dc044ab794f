#include "core/engine/queues/partition.h"

#include <algorithm>
#include <utility>

namespace ronde {
namespace {

constexpr std::size_t kCutAlign = 4096;  // of cuts within a tensor: whole pages, whole elements

/// Fills partitions from the front of the bundle.
class Cutter {
 public:
  Cutter(Bundle whole, std::size_t target_bytes)
      : tensors_(std::exchange(whole.tensors, {})),
        operations_(std::exchange(whole.operations, {})),
        priorities_(std::exchange(whole.priorities, {})),
        like_(std::move(whole)),
        target_(target_bytes) {}

  std::vector<Bundle> cut() {
    open();
    for (std::size_t i = 0; i < operations_.size(); ++i) add(i);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].partition = static_cast<int>(i) + 1;
    }
    return std::move(parts_);
  }

 private:
  void open() {
    parts_.push_back(like_);
    room_ = target_;
  }

  void add(std::size_t index) {
    const std::size_t bytes = input_bytes(tensors_[index], like_.dtype);
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
    if (const OperationPtr& operation = operations_[index]) {
      operation->add_pieces(pieces - 1);
    }
  }

  /// The bytes of a tensor's rest that go into the open partition.
  [[nodiscard]] std::size_t piece_bytes(std::size_t left) const noexcept {
    const std::size_t cut = (room_ + kCutAlign - 1) / kCutAlign * kCutAlign;
    return std::min(left, cut);
  }

  void append(std::size_t index, std::size_t offset, std::size_t bytes, bool is_whole) {
    Bundle& part = parts_.back();
    const OperationPtr& operation = operations_[index];
    BundleTensor tensor = tensors_[index];
    if (!is_whole) {
      tensor.shape = {static_cast<std::int64_t>(bytes / size_of(like_.dtype))};
      if (tensor.in != nullptr) tensor.in = static_cast<const std::byte*>(tensor.in) + offset;
      if (tensor.out != nullptr) {
        tensor.out = static_cast<std::byte*>(tensor.out) + offset;
      } else if (operation) {
        tensor.allocate = &part.allocators.emplace_back(operation->piece_allocator(offset));
      }
    }
    if (part.operations.empty()) part.priority = priorities_[index];
    part.operations.push_back(operation);
    part.tensors.push_back(std::move(tensor));
  }

  const std::vector<BundleTensor> tensors_;
  const std::vector<OperationPtr> operations_;
  const std::vector<std::int32_t> priorities_;
  const Bundle like_;  // without tensors
  const std::size_t target_;
  std::size_t room_ = 0;
  std::vector<Bundle> parts_;
};

}  // namespace

std::vector<Bundle> cut_bundle(Bundle whole, std::size_t partition_bytes) {
  const std::size_t bytes = agreed_bytes(whole);
  std::vector<Bundle> parts;
  const bool can = traits_of(whole.kind).element_wise() && is_element_wise(whole.op) &&
                   whole.compression.empty();
  if (partition_bytes == 0 || bytes <= partition_bytes || !can) {
    parts.push_back(std::move(whole));
    return parts;
  }
  const std::size_t count = (bytes - 1) / partition_bytes + 1;
  return Cutter(std::move(whole), (bytes - 1) / count + 1).cut();
}

}  // namespace ronde
