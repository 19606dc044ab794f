// The kernels: they read their attributes once and start a Call each time they run.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "call.h"

namespace ronde::tensorflow {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;

double parse_scale(OpKernelConstruction* construction, const char* attribute) {
  std::string text;
  const absl::Status status = construction->GetAttr(attribute, &text);
  if (!status.ok()) construction->SetStatus(status);
  return std::strtod(text.c_str(), nullptr);
}

/// Any collective: hands TensorFlow's own buffers to the engine and returns at once.
template <ronde_collective kKind, bool kWeighted = false>
class CollectiveKernel final : public AsyncOpKernel {
 public:
  explicit CollectiveKernel(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    what_.kind = kKind;
    what_.weighted = kWeighted;
    OP_REQUIRES_OK(construction, construction->GetAttr("names", &what_.names));
    OP_REQUIRES_OK(construction, construction->GetAttr("set", &what_.set));
    OP_REQUIRES_OK(construction, construction->GetAttr("site", &what_.site));
    if constexpr (kKind != RONDE_JOIN) {
      OP_REQUIRES_OK(construction, construction->GetAttr("program", &what_.program));
    }
    if constexpr (kKind == RONDE_ALLREDUCE || kKind == RONDE_REDUCE_SCATTER) {
      OP_REQUIRES_OK(construction, construction->GetAttr("op", &what_.op));
      what_.prescale = parse_scale(construction, "prescale");
      what_.postscale = parse_scale(construction, "postscale");
    }
    if constexpr (kKind == RONDE_ALLREDUCE) {
      OP_REQUIRES_OK(construction, construction->GetAttr("compression", &what_.compression));
      OP_REQUIRES_OK(construction, construction->GetAttr("priorities", &what_.priorities));
    }
    if constexpr (kKind == RONDE_BROADCAST) {
      OP_REQUIRES_OK(construction, construction->GetAttr("root", &what_.root));
    }
    const auto names = static_cast<int>(what_.names.size());
    OP_REQUIRES(construction, names == 1 || names == num_inputs() - kWeighted,
                absl::InvalidArgumentError("names: one, or one for each tensor"));
    note_graph(what_.names, what_.program, what_.set);
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    Call::start(what_, context, std::move(done));
  }

 private:
  Description what_;
};

/// The identity of this process.
class QueryKernel final : public OpKernel {
 public:
  explicit QueryKernel(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("what", &what_));
    OP_REQUIRES_OK(construction, construction->GetAttr("set", &set_));
  }

  void Compute(OpKernelContext* context) override {
    const JobPtr job = current_job();
    OP_REQUIRES(context, job != nullptr, not_initialized());
    ronde_error error{};
    const std::int32_t value = answer(job.get(), &error);
    OP_REQUIRES(context, error.code == RONDE_OK, to_status(error));
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &output));
    output->scalar<std::int32_t>()() = value;
  }

 private:
  std::int32_t answer(const ronde_job* job, ronde_error* error) const {
    if (what_ == "rank") return api()->rank(job);
    if (what_ == "local_rank") return api()->local_rank(job);
    if (what_ == "local_size") return api()->local_size(job);
    const std::int32_t size = api()->set_ranks(job, set_, nullptr, 0, error);
    if (what_ == "size" || size < 0) return size;
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(size));
    api()->set_ranks(job, set_, ranks.data(), size, error);
    return std::count(ranks.begin(), ranks.end(), api()->rank(job)) > 0 ? 1 : 0;
  }

  std::string what_;
  std::int32_t set_ = 0;
};

#define RONDE_KERNEL(name, kind) \
  REGISTER_KERNEL_BUILDER(Name(name).Device(::tensorflow::DEVICE_CPU), CollectiveKernel<kind>)

RONDE_KERNEL("RondeAllreduce", RONDE_ALLREDUCE);
REGISTER_KERNEL_BUILDER(Name("RondeWeightedAllreduce").Device(::tensorflow::DEVICE_CPU),
                        CollectiveKernel<RONDE_ALLREDUCE, true>);
RONDE_KERNEL("RondeAllgather", RONDE_ALLGATHER);
RONDE_KERNEL("RondeBroadcast", RONDE_BROADCAST);
RONDE_KERNEL("RondeReducescatter", RONDE_REDUCE_SCATTER);
RONDE_KERNEL("RondeAlltoall", RONDE_ALLTOALL);
RONDE_KERNEL("RondeBarrier", RONDE_BARRIER);
RONDE_KERNEL("RondeJoin", RONDE_JOIN);
REGISTER_KERNEL_BUILDER(Name("RondeQuery").Device(::tensorflow::DEVICE_CPU), QueryKernel);

}  // namespace
}  // namespace ronde::tensorflow
