// First fit over the bundles that are still open, in the order of the batch.
#include "core/protocol/fusion_plan.h"

#include <numeric>
#include <utility>

#include "core/protocol/signature.h"

namespace ronde {
namespace {

constexpr std::size_t kOpenBundles = 8;  // per class; older ones are full enough to be left alone

bool fuses(Collective kind) noexcept {
  return kind == Collective::kAllreduce || kind == Collective::kAllgather ||
         kind == Collective::kBroadcast || kind == Collective::kReduceScatter ||
         kind == Collective::kReduce;
}

bool is_moved(const Agreed& item) noexcept {
  return item.status.ok() && item.request.kind != Collective::kJoin &&
         item.request.kind != Collective::kBarrier;
}

/// Bytes that are the same on all ranks.
std::size_t counted_bytes(Collective kind, const TensorMeta& tensor) noexcept {
  const std::size_t skip = has_free_first_extent(kind) && !tensor.shape.empty() ? 1 : 0;
  return std::accumulate(tensor.shape.begin() + static_cast<std::ptrdiff_t>(skip),
                         tensor.shape.end(), size_of(tensor.dtype),
                         [](std::size_t bytes, std::int64_t extent) {
                           return bytes * static_cast<std::size_t>(extent);
                         });
}

bool same_class(const Request& a, DType a_dtype, const Request& b, DType b_dtype) noexcept {
  return a.kind == b.kind && a_dtype == b_dtype && a.device.kind == b.device.kind &&
         (!reduces(a.kind) ||
          (a.op == b.op && a.prescale == b.prescale && a.postscale == b.postscale)) &&
         (!is_rooted(a.kind) || a.root == b.root) && a.compression == b.compression;
}

/// Bundles that move the same kind of thing and may still grow.
struct FusionClass {
  const Request* request = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::size_t> open;   // indices into the plan, oldest first
  std::vector<std::size_t> bytes;  // of each open bundle
};

class Planner {
 public:
  explicit Planner(std::size_t threshold_bytes) : threshold_(threshold_bytes) {}

  void add(const Request& request, const PlanEntry& entry) {
    if (!fuses(request.kind)) {
      plan_.push_back({{entry}});
      return;
    }
    const TensorMeta& tensor = request.tensors[entry.tensor];
    FusionClass& found = class_of(request, tensor.dtype);
    const std::size_t bytes = counted_bytes(request.kind, tensor);
    for (std::size_t i = 0; i < found.open.size(); ++i) {
      if (found.bytes[i] > threshold_ || bytes > threshold_ - found.bytes[i]) continue;
      plan_[found.open[i]].entries.push_back(entry);
      found.bytes[i] += bytes;
      return;
    }
    open_bundle(found, entry, bytes);
  }

  std::vector<PlannedBundle> take() { return std::move(plan_); }

 private:
  FusionClass& class_of(const Request& request, DType dtype) {
    for (FusionClass& known : classes_) {
      if (same_class(*known.request, known.dtype, request, dtype)) return known;
    }
    classes_.push_back({&request, dtype, {}, {}});
    return classes_.back();
  }

  void open_bundle(FusionClass& of, const PlanEntry& entry, std::size_t bytes) {
    if (of.open.size() == kOpenBundles) {
      of.open.erase(of.open.begin());
      of.bytes.erase(of.bytes.begin());
    }
    of.open.push_back(plan_.size());
    of.bytes.push_back(bytes);
    plan_.push_back({{entry}});
  }

  const std::size_t threshold_;
  std::vector<FusionClass> classes_;
  std::vector<PlannedBundle> plan_;
};

}  // namespace

std::vector<PlannedBundle> plan_fusion(const Batch& batch, std::size_t threshold_bytes) {
  Planner planner(threshold_bytes);
  for (std::size_t item = 0; item < batch.items.size(); ++item) {
    if (!is_moved(batch.items[item])) continue;
    const Request& request = batch.items[item].request;
    for (std::size_t tensor = 0; tensor < request.tensors.size(); ++tensor) {
      planner.add(request, {item, tensor});
    }
  }
  return planner.take();
}

}  // namespace ronde
