#include "call.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <unordered_set>
#include <utility>

namespace ronde::tensorflow {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::TensorShape;

/// TensorFlow's types that the graph ops take, with the core's.
constexpr std::pair<DataType, std::int32_t> kTypes[] = {
    {::tensorflow::DT_UINT8, RONDE_UINT8},   {::tensorflow::DT_UINT16, RONDE_UINT16},
    {::tensorflow::DT_UINT32, RONDE_UINT32}, {::tensorflow::DT_UINT64, RONDE_UINT64},
    {::tensorflow::DT_INT8, RONDE_INT8},     {::tensorflow::DT_INT16, RONDE_INT16},
    {::tensorflow::DT_INT32, RONDE_INT32},   {::tensorflow::DT_INT64, RONDE_INT64},
    {::tensorflow::DT_HALF, RONDE_FLOAT16},  {::tensorflow::DT_BFLOAT16, RONDE_BFLOAT16},
    {::tensorflow::DT_FLOAT, RONDE_FLOAT32}, {::tensorflow::DT_DOUBLE, RONDE_FLOAT64},
    {::tensorflow::DT_BOOL, RONDE_BOOL},
};

std::int32_t dtype_of(DataType type) {
  return std::find_if(std::begin(kTypes), std::end(kTypes),
                      [type](const auto& row) { return row.first == type; })
      ->second;
}

/// True if each output has its input's shape, so that its memory is known at once.
bool keeps_shape(ronde_collective kind) {
  return kind == RONDE_ALLREDUCE || kind == RONDE_BROADCAST;
}

/// Iterations of a loop may overlap, so each needs a name of its own, but names must not run out.
std::string name_in_iteration(const std::string& name, OpKernelContext* context) {
  constexpr std::int64_t kOverlapping = 16;  // tf.while_loop: 10 unless told otherwise
  const std::int64_t iteration = context->frame_iter().iter_id % kOverlapping;
  return name.empty() || iteration == 0 ? name : name + "@" + std::to_string(iteration);
}

/// An address for outputs without elements, for which TensorFlow has none.
void* no_elements() {
  static char nothing = 0;
  return &nothing;
}

void* data_of(const Tensor& tensor) { return const_cast<char*>(tensor.tensor_data().data()); }

/// True if this process has one thread alone that submits, its main one, and that waits for all it
/// calls; as ronde.tensorflow has told last.
std::atomic<bool> is_alone{false};

/// All calls that have not ended.
struct Live {
  std::mutex mutex;
  std::unordered_set<Call*> calls;
};

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// Never destroyed: kernels may run while the process exits.
Live& live() {
  static auto* kept = new Live();
  return *kept;
}

}  // namespace

Call::Call(const Description& what, OpKernelContext* context, AsyncOpKernel::DoneCallback done)
    : what_(what),
      done_(std::move(done)),
      number_(next_number()),
      parts_(what.names.size()),
      unfinished_(what.names.size() + 1),
      context_(context) {
  const std::lock_guard<std::mutex> lock(live().mutex);
  live().calls.insert(this);
}

Call::~Call() {
  const std::lock_guard<std::mutex> lock(live().mutex);
  live().calls.erase(this);
}

void Call::abandon_all(const absl::Status& status) {
  std::vector<AsyncOpKernel::DoneCallback> left;
  {
    const std::lock_guard<std::mutex> lock(live().mutex);  // keeps them alive
    for (Call* call : live().calls) {
      if (call->submitted_) left.push_back(call->leave(status));
    }
  }
  api()->clear_blocked();
  for (const AsyncOpKernel::DoneCallback& done : left) {
    if (done) done();  // may start other calls
  }
}

std::int32_t Call::count() {
  const std::lock_guard<std::mutex> lock(live().mutex);
  std::int32_t waited_for = 0;
  for (Call* call : live().calls) {
    const std::lock_guard<std::mutex> own(call->mutex_);
    waited_for += call->context_ != nullptr ? 1 : 0;
  }
  return waited_for;
}

void Call::abandon(Call* call, std::uint64_t number, const absl::Status& status) {
  AsyncOpKernel::DoneCallback done;
  {
    const std::lock_guard<std::mutex> lock(live().mutex);  // keeps it alive
    if (live().calls.count(call) == 0 || call->number_ != number) return;
    done = call->leave(status);
  }
  api()->clear_blocked();
  if (done) done();
}

void Call::end_when_cancelled() {
  const auto cancelled = [this, number = number_] {
    abandon(this, number, absl::CancelledError("the step was cancelled"));
  };
  bool is_late = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (context_ == nullptr || context_->cancellation_manager() == nullptr) return;
    token_ = context_->cancellation_manager()->get_cancellation_token();
    is_late = !context_->cancellation_manager()->RegisterCallback(token_, cancelled);
  }
  if (is_late) cancelled();
}

void Call::start(const Description& what, OpKernelContext* context,
                 AsyncOpKernel::DoneCallback done) {
  auto* call = new Call(what, context, std::move(done));
  if (absl::Status status = call->prepare(); !status.ok()) {
    call->unfinished_ = 1;
    call->finish(status);
    return;
  }
  for (Part& part : call->parts_) call->submit(part);
  call->finish(absl::OkStatus());  // the one that start() itself counts for
}

absl::Status Call::prepare() {
  if (job_ == nullptr) return not_initialized();
  const int tensors = has_numbers() ? 1 : context_->num_inputs() - (what_.weighted ? 1 : 0);
  if (what_.weighted) {
    const Tensor& weight = context_->input(tensors);
    if (weight.NumElements() != 1) return absl::InvalidArgumentError("weight must be one number");
    weight_ = weight.flat<double>()(0);
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].call = this;
    parts_[i].name = name_in_iteration(what_.names[i], context_);
    parts_[i].first = i;
  }
  for (int i = 0; i < tensors; ++i) {
    Part& part = parts_.size() == 1 ? parts_[0] : parts_[static_cast<std::size_t>(i)];
    TF_RETURN_IF_ERROR(add_tensor(part, i));
  }
  for (int i = 1; has_numbers() && i < context_->num_inputs(); ++i) {
    const auto numbers = context_->input(i).flat<std::int64_t>();
    splits_.insert(splits_.end(), numbers.data(), numbers.data() + numbers.size());
  }
  return absl::OkStatus();
}

absl::Status Call::add_tensor(Part& part, int index) {
  const Tensor& input = context_->input(index);
  Tensor* output = nullptr;
  if (keeps_shape(what_.kind)) {
    TF_RETURN_IF_ERROR(
        context_->forward_input_or_allocate_output({index}, index, input.shape(), &output));
  }
  const auto sizes = input.shape().dim_sizes();
  part.shapes.emplace_back(sizes.begin(), sizes.end());
  ronde_tensor tensor{};
  tensor.dtype = dtype_of(input.dtype());
  tensor.dimensions = input.dims();
  tensor.in = input.NumElements() == 0 ? nullptr : data_of(input);
  tensor.out = output == nullptr ? nullptr : data_of(*output);
  if (output != nullptr && tensor.out == nullptr) tensor.out = no_elements();
  kept_.push_back(input);
  if (output != nullptr) kept_.push_back(*output);
  part.tensors.push_back(tensor);
  return absl::OkStatus();
}

void Call::submit(Part& part) {
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    part.tensors[i].shape = part.shapes[i].data();
  }
  ronde_submission submission{};
  submission.struct_bytes = sizeof submission;
  submission.collective = what_.kind;
  submission.set = what_.set;
  submission.name = part.name.c_str();
  submission.call_site = site_.c_str();
  submission.tensors = part.tensors.data();
  submission.tensor_count = part.tensors.size();
  submission.op = what_.op;
  submission.root = what_.root;
  submission.prescale = what_.prescale;
  submission.postscale = what_.postscale;
  submission.weight = what_.weighted ? &weight_ : nullptr;
  submission.compression = compression_.c_str();
  const auto place = static_cast<std::size_t>(&part - parts_.data());
  if (place < what_.priorities.size()) submission.priority = what_.priorities[place];
  submission.program = program_.c_str();
  submission.splits = splits_.empty() ? nullptr : splits_.data();
  submission.split_count = splits_.size();
  submission.help_microseconds = parts_.size() == 1 ? help_time() : 0;  // others are to come
  submission.blocks = blocks();
  submission.may_submit = may_submit;
  submission.context = &part;
  submission.allocate = [](void* context, std::size_t index, const std::int64_t* shape,
                           std::int32_t dimensions) {
    auto* of = static_cast<Part*>(context);
    return of->call->allocate(of->first + index, shape, dimensions);
  };
  submission.done = [](void* context, const ronde_outcome* outcome) {
    Call* call = static_cast<Part*>(context)->call;
    call->finish(call->take_results(*outcome));
  };
  if (&part == &parts_.back()) {  // which may take a while, and needs nothing of the kernel's
    submitted_ = true;
    end_when_cancelled();
  }
  ronde_error error{};
  if (api()->submit(job_.get(), &submission, &error) == RONDE_OK) return;
  finish(to_status(error));
}

ronde_blocks Call::blocks() const {
  if (!is_alone) return RONDE_BLOCKS_NOTHING;
  const bool is_eager = what_.program == kEagerProgram;
  const bool is_waited_for = gettid() == getpid();  // by Python's thread, which runs the kernel
  if (is_eager && parts_.size() == 1 && is_waited_for) return RONDE_BLOCKS_EVERYTHING;
  return is_eager ? RONDE_BLOCKS_NOTHING : RONDE_BLOCKS_UNNAMED;  // graphs have names for all
}

std::int32_t Call::help_time() const {
  constexpr std::size_t kSmall = 32 << 10;  // bytes: moved in about the time of waking a thread
  constexpr std::int32_t kMicroseconds = 100;
  std::size_t bytes = 0;
  for (int i = 0; i < context_->num_inputs(); ++i) bytes += context_->input(i).TotalBytes();
  return bytes <= kSmall ? kMicroseconds : 0;
}

void* Call::allocate(std::size_t index, const std::int64_t* shape, std::int32_t dimensions) {
  TensorShape wanted;
  for (std::int32_t d = 0; d < dimensions; ++d) wanted.AddDim(shape[d]);
  const std::lock_guard<std::mutex> lock(mutex_);
  Tensor* output = nullptr;
  if (context_ == nullptr) {
    output = &kept_.emplace_back(kept_[index].dtype(), wanted);  // inputs come first
  } else if (!context_->allocate_output(static_cast<int>(index), wanted, &output).ok()) {
    return nullptr;
  } else {
    kept_.push_back(*output);
  }
  void* memory = data_of(*output);
  return memory == nullptr ? no_elements() : memory;
}

absl::Status Call::take_results(const ronde_outcome& outcome) {
  if (outcome.error != nullptr) return to_status(*outcome.error);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (context_ == nullptr) return absl::OkStatus();
  Tensor* output = nullptr;
  if (has_numbers()) {
    const auto count = static_cast<std::int64_t>(outcome.recv_split_count);
    TF_RETURN_IF_ERROR(context_->allocate_output(1, TensorShape({count}), &output));
    std::copy_n(outcome.recv_splits, count, output->flat<std::int64_t>().data());
  }
  if (kind_ == RONDE_JOIN) {
    TF_RETURN_IF_ERROR(context_->allocate_output(0, TensorShape({}), &output));
    output->scalar<std::int32_t>()() = outcome.last_joined;
  }
  return absl::OkStatus();
}

AsyncOpKernel::DoneCallback Call::leave(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (context_ == nullptr) return {};
  if (!status.ok()) context_->SetStatus(status);
  if (token_ != CancellationManager::kInvalidToken) {
    context_->cancellation_manager()->TryDeregisterCallback(token_);
  }
  context_ = nullptr;
  return done_;
}

void Call::finish(const absl::Status& status) {
  if (!status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_.Update(status);  // keeps the first
  }
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  kept_.clear();  // so that TensorFlow can use the buffers again
  const AsyncOpKernel::DoneCallback done = leave(status_);
  delete this;
  if (done) done();  // last, as it may destroy the kernel
}

}  // namespace ronde::tensorflow

/// The number of collectives that TensorFlow waits for.
extern "C" __attribute__((visibility("default"))) std::int32_t ronde_tensorflow_calls() {
  return ronde::tensorflow::Call::count();
}

/// True if Python has one thread alone, and nothing else that could submit.
extern "C" __attribute__((visibility("default"))) void ronde_tensorflow_tell_alone(int alone) {
  ronde::tensorflow::is_alone = alone != 0;
}

/// Has TensorFlow stop waiting for collectives, whatever they are doing: Ctrl-C was pressed.
extern "C" __attribute__((visibility("default"))) void ronde_tensorflow_interrupt() {
  ronde_error error{RONDE_INTERRUPTED, -1, 0, "", "interrupted while waiting for a collective"};
  ronde::tensorflow::Call::abandon_all(ronde::tensorflow::to_status(error));
}
