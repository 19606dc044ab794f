#include "core/engine/queues/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/ports/event_sink.h"

namespace ronde {

Operation::Operation(Submission&& submission, std::uint64_t ticket)
    : submission_(std::move(submission)),
      ticket_(ticket),
      unfinished_tensors_(std::max<std::size_t>(1, submission_.request.tensors.size())) {
  if (submission_.allocate) {
    allocator_ = submission_.allocate;
  } else {
    allocator_ = [this](std::size_t index, const Shape& shape) {
      return allocate_output(index, shape);
    };
  }
}

Result<void*> Operation::allocate_output(std::size_t index, const Shape& shape) {
  if (owned_.size() <= index) owned_.resize(index + 1);
  owned_[index].shape = shape;
  const auto bytes = static_cast<std::size_t>(element_count(shape)) *
                     size_of(submission_.request.tensors[index].dtype);
  if (bytes == 0) return static_cast<void*>(nullptr);
  RONDE_ASSIGN_OR_RETURN(owned_[index].data, allocate_memory(bytes));
  return static_cast<void*>(owned_[index].data.get());
}

Result<std::shared_ptr<std::byte>> Operation::allocate_memory(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  if (submission_.device_memory) return submission_.device_memory(bytes);
  auto* memory = static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
  if (memory == nullptr) {
    return Status(Code::kResourceExhausted,
                  fmt::format("no memory for an output of {} bytes", bytes));
  }
  return std::shared_ptr<std::byte>(
      memory, [](std::byte* pointer) { ::operator delete(pointer, kAlignment); });
}

Result<void*> Operation::whole_output(std::size_t index) {
  const auto known = whole_outputs_.find(index);
  if (known != whole_outputs_.end()) return known->second;
  return whole_outputs_.emplace(index, allocator_(index, submission_.request.tensors[index].shape))
      .first->second;
}

OutputAllocator Operation::piece_allocator(std::size_t offset) {
  return [this, offset](std::size_t index, const Shape&) -> Result<void*> {
    RONDE_ASSIGN_OR_RETURN(void* const whole, whole_output(index));
    return static_cast<void*>(static_cast<std::byte*>(whole) + offset);
  };
}

BundleTensor Operation::bundle_tensor(std::size_t index) {
  BundleTensor tensor;
  tensor.name = submission_.request.name;
  tensor.track = label_;
  tensor.in = submission_.inputs[index];
  tensor.out = submission_.outputs[index];
  tensor.shape = submission_.request.tensors[index].shape;
  tensor.splits = submission_.splits;
  tensor.recv_splits = &recv_splits_;
  tensor.allocate = &allocator_;
  tensor.index = index;
  tensor.finding = &finding_;
  tensor.ready = submission_.ready.get();
  tensor.complete = &completion_;
  return tensor;
}

void Operation::settle_finding(const std::vector<int>& members, std::uint64_t steps) noexcept {
  int& rank = finding_.odd.rank;
  if (rank >= 0) rank = members[static_cast<std::size_t>(rank)];
  steps_before_ = steps;
}

bool Operation::tensor_finished(const Status& status) {
  if (tensors_status_.ok()) tensors_status_ = status;
  return --unfinished_tensors_ == 0;
}

void Operation::finish(const Status& status) {
  if (done()) return;
  status_ = status;
  if (submission_.on_done) submission_.on_done(*this);
  done_.store(true, std::memory_order_release);
}

std::size_t Operation::input_bytes() const noexcept {
  std::size_t sum = 0;
  for (const TensorMeta& tensor : submission_.request.tensors) sum += bytes_of(tensor);
  return sum;
}

std::string_view Operation::negotiation_event() const noexcept {
  return traits_of(submission_.request.kind).negotiation;
}

EndedOperation ended_operation(const Operation& operation, Code code, TimePoint when) noexcept {
  const RecordTicket record = operation.record();
  return {.kind = record.kind,
          .bytes = record.bytes,
          .code = code,
          .submitted_ns = record.submitted_ns,
          .agreed_ns = operation.agreed_ns(),
          .ended_ns = to_ns(when)};
}

void Operation::make_label() {
  label_ = tensor_track(submission_.request.kind, submission_.request.name);
}

}  // namespace ronde
