// The kernels: they read their attributes once and start a Call each time they run.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "call.h"

namespace ronde::tensorflow {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;

/// Reads an attribute into `value`, where the graph op has it.
template <typename Value>
void read(OpKernelConstruction* construction, const char* attribute, Value& value) {
  if (construction->HasAttr(attribute)) {
    OP_REQUIRES_OK(construction, construction->GetAttr(attribute, &value));
  }
}

/// As read(), of a number that is a text in the graph.
inline void read_scale(OpKernelConstruction* construction, const char* attribute, double& value) {
  std::string text;
  read(construction, attribute, text);
  if (!text.empty()) value = std::strtod(text.c_str(), nullptr);
}

/// Any collective: hands TensorFlow's own buffers to the engine and returns at once.
template <ronde_collective kKind, bool kWeighted = false>
class CollectiveKernel final : public AsyncOpKernel {
 public:
  explicit CollectiveKernel(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    what_.kind = kKind;
    what_.weighted = kWeighted;
    read(construction, "names", what_.names);
    read(construction, "set", what_.set);
    read(construction, "site", what_.site);
    read(construction, "program", what_.program);
    read(construction, "op", what_.op);
    read_scale(construction, "prescale", what_.prescale);
    read_scale(construction, "postscale", what_.postscale);
    read(construction, "compression", what_.compression);
    read(construction, "priorities", what_.priorities);
    read(construction, "root", what_.root);
    if (!construction->status().ok()) return;
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

}  // namespace ronde::tensorflow
