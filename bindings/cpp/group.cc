#include <array>
#include <new>
#include <utility>

#include "bindings/cpp/internal.h"
#include "bindings/runtime/memory_check.h"
#include "core/protocol/request.h"

namespace ronde {
namespace {

/// Owns what a raw collective allocates for its output.
class OutputArray {
 public:
  explicit OutputArray(DType dtype) {
    array_.dtype = dtype;
    allocator_ = [this](std::size_t, const Shape& shape) { return allocate(shape); };
  }
  [[nodiscard]] const OutputAllocator* allocator() const noexcept { return &allocator_; }
  [[nodiscard]] Array take() { return std::move(array_); }

 private:
  Result<void*> allocate(const Shape& shape) {
    array_.shape = shape;
    const auto bytes = static_cast<std::size_t>(element_count(shape)) * size_of(array_.dtype);
    if (bytes == 0) return static_cast<void*>(nullptr);
    auto* memory =
        static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}, std::nothrow));
    if (memory == nullptr) return Status(Code::kResourceExhausted, "no memory for the output");
    array_.data = std::shared_ptr<std::byte>(
        memory, [](std::byte* pointer) { ::operator delete (pointer, std::align_val_t{64}); });
    return static_cast<void*>(memory);
  }

  Array array_;
  OutputAllocator allocator_;
};

Bundle bundle_of(Collective kind, const Tensor& tensor, int root = 0) {
  if (tensor.cuda_device >= 0) {
    throw_if_error({Code::kUnsupported, "raw collectives serve tensors in host memory only"});
  }
  Bundle bundle;
  bundle.kind = kind;
  bundle.dtype = tensor.dtype;
  bundle.root = root;
  BundleTensor& only = bundle.tensors.emplace_back();
  only.in = tensor.in;
  only.out = tensor.out;
  only.shape = tensor.shape;
  return bundle;
}

void set_reduction(Bundle& bundle, const ReduceOptions& options) {
  if (options.weight) throw InvalidArgument("raw collectives take no weight; named ones do");
  bundle.op = options.op;
  bundle.prescale = options.prescale;
  bundle.postscale = options.postscale;
  if (options.compression != "none") bundle.compression = options.compression;
}

}  // namespace

class Group::Impl {
 public:
  void check_root(int root) const {
    if (root >= 0 && root < group->size()) return;
    throw InvalidArgument("root " + std::to_string(root) + " is not in the group; allowed: 0 to " +
                          std::to_string(group->size() - 1));
  }
  /// Checks the tensor, then runs the bundle.
  void run(const Bundle& bundle) const {
    if (!bundle.tensors.empty()) {
      const Status status = check(bundle, bundle.tensors.front());
      if (!status.ok()) throw_if_error(status.with_context(to_string(bundle.kind)));
    }
    throw_if_error(group->run(bundle));
  }
  /// Runs a bundle whose output's size is known only when it runs.
  Array run_allocating(Bundle& bundle) const {
    OutputArray output(bundle.dtype);
    bundle.tensors[0].out = nullptr;
    bundle.tensors[0].allocate = output.allocator();
    run(bundle);
    return output.take();
  }

  std::shared_ptr<Runtime> runtime;  // first: outlives the group
  std::unique_ptr<RawGroup> group;

 private:
  [[nodiscard]] Status check(const Bundle& bundle, const BundleTensor& tensor) const {
    RONDE_RETURN_IF_ERROR(check_tensor(bundle.kind, bundle.op, bundle.dtype, tensor.shape));
    const bool is_root = !traits_of(bundle.kind).rooted() || bundle.root == group->rank();
    return check_memory(
        {.kind = bundle.kind,
         .ranks = group->size(),
         .place = group->rank(),
         .is_root = is_root,
         .allocates = tensor.allocate != nullptr},
        std::array{TensorMemory{bundle.dtype, tensor.shape, tensor.in, tensor.out}});
  }
};

Group make_group(std::unique_ptr<RawGroup> group, std::shared_ptr<Runtime> runtime) {
  auto impl = std::make_unique<Group::Impl>();
  impl->runtime = std::move(runtime);
  impl->group = std::move(group);
  return Group(std::move(impl));
}

Group::Group(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Group::Group(Group&&) noexcept = default;
Group::~Group() = default;

int Group::rank() const noexcept { return impl_->group->rank(); }
int Group::size() const noexcept { return impl_->group->size(); }

void Group::allreduce(const Tensor& tensor, const ReduceOptions& options) {
  Bundle bundle = bundle_of(Collective::kAllreduce, tensor);
  set_reduction(bundle, options);
  impl_->run(bundle);
}

void Group::reduce(const Tensor& tensor, int root, const ReduceOptions& options) {
  impl_->check_root(root);
  Bundle bundle = bundle_of(Collective::kReduce, tensor, root);
  set_reduction(bundle, options);
  impl_->run(bundle);
}

void Group::broadcast(const Tensor& tensor, int root) {
  impl_->check_root(root);
  impl_->run(bundle_of(Collective::kBroadcast, tensor, root));
}

Array Group::allgather(const Tensor& tensor, const MoveOptions& options) {
  Bundle bundle = bundle_of(Collective::kAllgather, tensor);
  if (options.compression != "none") bundle.compression = options.compression;
  return impl_->run_allocating(bundle);
}

Array Group::gather(const Tensor& tensor, int root) {
  impl_->check_root(root);
  Bundle bundle = bundle_of(Collective::kGather, tensor, root);
  return impl_->run_allocating(bundle);
}

Array Group::reduce_scatter(const Tensor& tensor, const ReduceOptions& options) {
  Bundle bundle = bundle_of(Collective::kReduceScatter, tensor);
  set_reduction(bundle, options);
  return impl_->run_allocating(bundle);
}

void Group::scatter(const void* whole, const Tensor& part, int root) {
  impl_->check_root(root);
  Bundle bundle = bundle_of(Collective::kScatter, part, root);
  bundle.tensors[0].in = whole;
  impl_->run(bundle);
}

Array Group::alltoall(const Tensor& tensor, std::span<const std::int64_t> splits) {
  Bundle bundle = bundle_of(Collective::kAlltoall, tensor);
  bundle.tensors[0].splits = splits;
  return impl_->run_allocating(bundle);
}

void Group::barrier() { impl_->run(Bundle{}); }

}  // namespace ronde
