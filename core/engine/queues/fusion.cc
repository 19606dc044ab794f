// First fit over the bundles that are still open, in the order of the batch.
#include "core/engine/queues/fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/collective.h"

namespace ronde {
namespace {

constexpr std::size_t kOpenBundles = 8;  // per class; older ones are full enough to be left alone

bool is_moved(const Agreed& item) noexcept {
  return item.status.ok() && traits_of(item.request.kind).moves_data();
}

/// Bytes that are the same on all ranks.
std::size_t counted_bytes(Collective kind, const TensorMeta& tensor) noexcept {
  const std::size_t skip = traits_of(kind).has_free_first_extent() && !tensor.shape.empty() ? 1 : 0;
  return std::accumulate(tensor.shape.begin() + static_cast<std::ptrdiff_t>(skip),
                         tensor.shape.end(), size_of(tensor.dtype),
                         [](std::size_t bytes, std::int64_t extent) {
                           return bytes * static_cast<std::size_t>(extent);
                         });
}

bool same_class(const Request& a, DType a_dtype, const Request& b, DType b_dtype) noexcept {
  return a.kind == b.kind && a_dtype == b_dtype && a.device.kind == b.device.kind &&
         (!traits_of(a.kind).reduces ||
          (a.op == b.op && a.prescale == b.prescale && a.postscale == b.postscale &&
           a.weight.has_value() == b.weight.has_value())) &&
         (!traits_of(a.kind).rooted() || a.root == b.root) && a.compression == b.compression;
}

/// The request's root as a rank of the group; 0 where the kind has none.
int group_root(const Request& request, std::span<const int> members) {
  const auto found = std::find(members.begin(), members.end(), request.root);
  return found == members.end() ? 0 : static_cast<int>(found - members.begin());
}

QueuedBundle bundle_like(const Request& request, DType dtype, std::span<const int> members) {
  QueuedBundle bundle;
  bundle.kind = request.kind;
  bundle.dtype = dtype;
  bundle.op = request.op;
  bundle.root = group_root(request, members);
  bundle.prescale = request.prescale;
  bundle.postscale = request.postscale;
  bundle.weighted = request.weight.has_value();
  bundle.device = request.device;
  bundle.compression = request.compression;
  return bundle;
}

/// The key of one tensor's residual: the same from step to step.
std::string residual_key(const Request& request, std::size_t tensor) {
  if (request.name.empty() || request.tensors.size() == 1) return request.name;
  return fmt::format("{}[{}]", request.name, tensor);
}

/// A tensor of an operation that this rank, having joined, did not submit.
BundleTensor absent_tensor(const TensorMeta& meta) {
  BundleTensor tensor;
  tensor.shape = meta.shape;
  return tensor;
}

/// Bundles that move the same kind of thing and may still grow.
struct FusionClass {
  struct Open {
    std::size_t index;  // of the bundle
    std::size_t bytes;
  };
  const Request* request = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<Open> open = {};  // oldest first
};

class Fuser {
 public:
  Fuser(const Batch& batch, std::span<const OperationPtr> operations, std::span<const int> members,
        std::size_t threshold_bytes, std::string_view check_mean)
      : batch_(batch),
        operations_(operations),
        members_(members),
        threshold_(threshold_bytes),
        check_mean_(check_mean) {}

  std::vector<QueuedBundle> fuse() {
    for (std::size_t item = 0; item < batch_.items.size(); ++item) {
      if (!is_moved(batch_.items[item])) continue;
      const std::size_t tensors = batch_.items[item].request.tensors.size();
      std::span<const std::byte> result = batch_.items[item].result;
      for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
        append(bundles_[bundle_for(batch_.items[item], tensor)], item, tensor);
        if (!result.empty()) result = give_result(bundles_.back(), result);
      }
    }
    return std::move(bundles_);
  }

 private:
  /// The bundle that a tensor goes into. Results that came with the agreement have their own.
  std::size_t bundle_for(const Agreed& agreed, std::size_t tensor) {
    const Request& request = agreed.request;
    const TensorMeta& meta = request.tensors[tensor];
    const bool fuses = traits_of(request.kind).fuses && agreed.result.empty();
    if (!fuses) return add_bundle(request, meta.dtype);
    FusionClass& found = class_of(request, meta.dtype);
    const std::size_t bytes = counted_bytes(request.kind, meta);
    for (FusionClass::Open& open : found.open) {
      if (open.bytes > threshold_ || bytes > threshold_ - open.bytes) continue;
      open.bytes += bytes;
      return open.index;
    }
    if (found.open.size() == kOpenBundles) found.open.erase(found.open.begin());
    found.open.push_back({add_bundle(request, meta.dtype), bytes});
    return found.open.back().index;
  }

  FusionClass& class_of(const Request& request, DType dtype) {
    for (FusionClass& known : classes_) {
      if (same_class(*known.request, known.dtype, request, dtype)) return known;
    }
    return classes_.emplace_back(FusionClass{&request, dtype});
  }

  std::size_t add_bundle(const Request& request, DType dtype) {
    bundles_.push_back(bundle_like(request, dtype, members_));
    return bundles_.size() - 1;
  }

  void append(QueuedBundle& bundle, std::size_t item, std::size_t tensor) {
    const Agreed& agreed = batch_.items[item];
    const OperationPtr& operation = operations_[item];
    if (bundle.operations.empty()) bundle.priority = agreed.priority;
    bundle.operations.push_back(operation);
    bundle.priorities.push_back(agreed.priority);
    if (!bundle.compression.empty()) {
      bundle.keys.push_back(residual_key(agreed.request, tensor));
    }
    bundle.tensors.push_back(operation ? operation->bundle_tensor(tensor)
                                       : absent_tensor(agreed.request.tensors[tensor]));
    bundle.tensors.back().checks_mean =
        !check_mean_.empty() && agreed.request.name.find(check_mean_) != std::string::npos;
    if (bundle.weighted) bundle.tensors.back().weight = *agreed.request.weight / agreed.weights;
  }

  /// The front of `result` is the bundle's; returns the rest.
  static std::span<const std::byte> give_result(QueuedBundle& bundle,
                                                std::span<const std::byte> result) {
    const auto front = result.first(std::min(input_bytes(bundle), result.size()));
    bundle.result.assign(front.begin(), front.end());
    return result.subspan(front.size());
  }

  const Batch& batch_;
  const std::span<const OperationPtr> operations_;
  const std::span<const int> members_;
  const std::size_t threshold_;
  const std::string_view check_mean_;
  std::vector<FusionClass> classes_;
  std::vector<QueuedBundle> bundles_;
};

constexpr std::size_t kCutAlign = 4096;  // of cuts within a tensor: whole pages, whole elements

/// Fills partitions from the front of the bundle.
class Cutter {
 public:
  Cutter(QueuedBundle whole, std::size_t target_bytes)
      : tensors_(std::exchange(whole.tensors, {})),
        operations_(std::exchange(whole.operations, {})),
        priorities_(std::exchange(whole.priorities, {})),
        like_(std::move(whole)),
        target_(target_bytes) {}

  std::vector<QueuedBundle> cut() {
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
    QueuedBundle& part = parts_.back();
    const OperationPtr& operation = operations_[index];
    BundleTensor tensor = tensors_[index];
    if (!is_whole) {
      tensor.shape = {static_cast<std::int64_t>(bytes / size_of(like_.dtype))};
      tensor.begin = static_cast<std::int64_t>(offset / size_of(like_.dtype));
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
  const QueuedBundle like_;  // without tensors
  const std::size_t target_;
  std::size_t room_ = 0;
  std::vector<QueuedBundle> parts_;
};

}  // namespace

std::vector<QueuedBundle> fuse(const Batch& batch, std::span<const OperationPtr> operations,
                               std::span<const int> members, std::size_t threshold_bytes,
                               std::string_view check_mean) {
  return Fuser(batch, operations, members, threshold_bytes, check_mean).fuse();
}

std::vector<QueuedBundle> cut_bundle(QueuedBundle whole, std::size_t partition_bytes) {
  const std::size_t bytes = agreed_bytes(whole);
  std::vector<QueuedBundle> parts;
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
