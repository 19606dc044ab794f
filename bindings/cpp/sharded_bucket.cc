#include "bindings/cpp/sharded_bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "bindings/runtime/groups/group_factory.h"
#include "ops/kernels/factory.h"
#include "ops/kernels/optimizer.h"

namespace ronde::sharded {
namespace {

using kernels::kUpdateStep;

constexpr std::chrono::milliseconds kWaitForSpace{50};

std::size_t padded(std::size_t count, std::size_t unit) { return (count + unit - 1) / unit * unit; }

bool is_half(DType dtype) { return dtype != DType::kFloat32; }

void convert(DType from, const void* in, DType to, void* out, std::size_t count) {
  create_kernels()->cast(from, in, to, out, count);
}

/// The memory of one chunk while it is updated.
struct Chunk {
  std::span<const float> gradient;
  float* values;
  std::vector<std::vector<float>>& state;
};

void update_by(const Sgd& rule, const Update& how, const Chunk& chunk) {
  const kernels::SgdUpdate step{.gradient_scale = how.gradient_scale,
                                .learning_rate = static_cast<float>(rule.learning_rate),
                                .momentum = static_cast<float>(rule.momentum),
                                .weight_decay = static_cast<float>(rule.weight_decay),
                                .nesterov = rule.nesterov};
  kernels::update_sgd(step, chunk.gradient, chunk.values,
                      rule.momentum == 0.0 ? nullptr : chunk.state[0].data());
}

/// Rule: Adam or AdamW.
template <typename Rule>
void update_by(const Rule& rule, const Update& how, const Chunk& chunk) {
  const auto steps = static_cast<double>(how.step);
  constexpr bool kApart = std::is_same_v<Rule, AdamW>;
  const double rate = rule.learning_rate;
  const kernels::AdamUpdate step{
      .gradient_scale = how.gradient_scale,
      .weight_decay = kApart ? 0.0F : static_cast<float>(rule.weight_decay),
      .keep = kApart ? static_cast<float>(1.0 - rate * rule.weight_decay) : 1.0F,
      .mean_weight = static_cast<float>(1.0 - rule.beta1),
      .beta2 = static_cast<float>(rule.beta2),
      .variance_weight = static_cast<float>(1.0 - rule.beta2),
      .step_size = static_cast<float>(rate / (1.0 - std::pow(rule.beta1, steps))),
      .root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(rule.beta2, steps))),
      .epsilon = static_cast<float>(rule.epsilon)};
  kernels::update_adam(step, chunk.gradient, chunk.values, chunk.state[0].data(),
                       chunk.state[1].data());
}

}  // namespace

OperationPtr Context::start(Submission submission, std::shared_ptr<const void> memory) const {
  submission.request.name += suffix;
  submission.request.call_site = site;
  submission.request.compression = "none";
  submission.on_done = [memory = std::move(memory)](Operation&) {};
  return value_or_throw(runtime->operations().submit(set, std::move(submission)));
}

Status Context::wait(const OperationPtr& operation) const {
  return runtime->operations().wait(operation);
}

Array Context::allocate(DType dtype, std::size_t count) const {
  auto memory = value_or_throw(runtime->groups().allocate(count * size_of(dtype)));
  return {std::move(memory), dtype, {static_cast<std::int64_t>(count)}};
}

std::vector<std::string> Context::of_all(const std::string& name, const std::string& text) const {
  const auto sent = std::make_shared<const std::string>(text);
  Submission submission;
  submission.request.kind = Collective::kAllgather;
  submission.request.name = name;
  submission.request.tensors = {{DType::kUint8, {static_cast<std::int64_t>(sent->size() + 1)}}};
  submission.inputs = {sent->c_str()};
  submission.outputs = {nullptr};
  const OperationPtr operation = start(std::move(submission), sent);
  throw_if_error(wait(operation));
  const auto* next = reinterpret_cast<const char*>(operation->owned_outputs()[0].data.get());
  std::vector<std::string> texts;
  while (texts.size() < ranks.size()) {
    texts.emplace_back(next);
    next += texts.back().size() + 1;
  }
  return texts;
}

Array Spaces::take(const Context& context) {
  const auto find = [this] {
    return std::find_if(returned_.begin(), returned_.end(),
                        [](const Used& one) { return one.until->done(); });
  };
  if (returned_.size() > 1 && find() == returned_.end()) {
    WaitOptions options;
    options.deadline = now() + kWaitForSpace;
    const Status status = context.runtime->operations().wait(returned_.front().until, options);
    if (status.code() == Code::kInterrupted) throw_if_error(status);
  }
  const auto found = find();
  if (found == returned_.end()) {
    ++made_;
    return context.allocate(DType::kUint8, bytes_);
  }
  Array space = std::move(found->space);
  returned_.erase(found);
  return space;
}

void Spaces::give_back(Array space, OperationPtr until) {
  returned_.push_back({std::move(space), std::move(until)});
}

std::span<const std::string_view> kinds_of(const UpdateRule& rule) noexcept {
  static constexpr std::array<std::string_view, 1> kOfSgd = {"momentum"};
  static constexpr std::array<std::string_view, 2> kOfAdam = {"mean", "variance"};
  if (const auto* sgd = std::get_if<Sgd>(&rule)) {
    return std::span(kOfSgd).first(sgd->momentum == 0.0 ? 0 : 1);
  }
  return kOfAdam;
}

Bucket::Bucket(const Context& context, std::vector<Slot> slots, std::size_t number,
               const UpdateRule& rule)
    : dtype_(slots.front().dtype),
      slots_(std::move(slots)),
      name_(slots_.front().name),
      priority_(-static_cast<int>(number)),
      asked_(slots_.size()),
      ready_(slots_.size()) {
  if (slots_.size() > 1) name_ += fmt::format(" and {} more", slots_.size() - 1);
  for (Slot& slot : slots_) {
    slot.begin = count_;
    count_ += padded(slot.count, kUpdateStep);
  }
  count_ = padded(std::max<std::size_t>(count_, 1), kUpdateStep * context.ranks.size());
  chunk_ = count_ / context.ranks.size();
  low_ = context.place * chunk_;
  values_ = context.allocate(dtype_, count_);
  const auto kinds = kinds_of(rule);
  kinds_.assign(kinds.begin(), kinds.end());
  if (is_half(dtype_)) kinds_.emplace_back("values");
  state_.assign(kinds_.size(), std::vector<float>(chunk_));
}

std::size_t Bucket::shard_bytes() const noexcept {
  return averages_.data ? chunk_ * size_of(dtype_) : 0;
}

std::size_t Bucket::state_bytes() const noexcept { return kinds_.size() * chunk_ * sizeof(float); }

std::size_t Bucket::gradient_bytes(const Spaces& spaces) const noexcept {
  return space_.data && !spaces.shared() ? bytes() : 0;
}

std::byte* Bucket::at(const Array& memory, std::size_t element) const {
  return memory.data.get() + element * size_of(dtype_);
}

Array Bucket::values(std::size_t slot) const {
  const Slot& one = slots_[slot];
  return {std::shared_ptr<std::byte>(values_.data, at(values_, one.begin)), dtype_, one.shape};
}

Array Bucket::gradient(const Context& context, Spaces& spaces, std::size_t slot) {
  const Slot& one = slots_[slot];
  if (!space_.data) {
    space_ = spaces.shared() ? spaces.take(context) : context.allocate(dtype_, count_);
  }
  if (!asked_[slot]) std::memset(at(space_, one.begin), 0, one.count * size_of(dtype_));
  asked_[slot] = true;
  return {std::shared_ptr<std::byte>(space_.data, at(space_, one.begin)), dtype_, one.shape};
}

void Bucket::mark_ready(const Context& context, Spaces& spaces, std::size_t slot) {
  ready_[slot] = true;
  if (std::find(ready_.begin(), ready_.end(), false) == ready_.end()) send(context, spaces);
}

/// Zeros, but for the gradients that were asked for.
void Bucket::clear_unasked() {
  std::size_t done = 0;
  const auto clear_to = [&](std::size_t end) {
    std::memset(at(space_, done), 0, (end - done) * size_of(dtype_));
  };
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!asked_[slot]) continue;
    clear_to(slots_[slot].begin);
    done = slots_[slot].end();
  }
  clear_to(count_);
}

Submission Bucket::submission(Collective kind, std::string_view what, std::size_t count) const {
  Submission submission;
  submission.request.kind = kind;
  submission.request.name = fmt::format("the {} of {}", what, name_);
  submission.request.tensors = {{dtype_, {static_cast<std::int64_t>(count)}}};
  submission.request.priority = priority_;
  return submission;
}

void Bucket::send(const Context& context, Spaces& spaces) {
  if (reduction_) return;
  if (!space_.data) {
    space_ = spaces.shared() ? spaces.take(context) : context.allocate(dtype_, count_);
  }
  clear_unasked();
  if (spaces.shared() && !averages_.data) averages_ = context.allocate(dtype_, chunk_);
  Submission reduce = submission(Collective::kReduceScatter, "shards", count_);
  reduce.request.op = context.op;
  reduce.inputs = {space_.data.get()};
  reduce.outputs = {spaces.shared() ? averages_.data.get() : at(space_, low_)};
  reduction_ = context.start(std::move(reduce),
                             std::make_shared<std::array<Array, 2>>(std::array{space_, averages_}));
  if (spaces.shared()) spaces.give_back(std::exchange(space_, {}), reduction_);
  ready_.assign(ready_.size(), true);
}

Status Bucket::wait_for_gradients(const Context& context) const {
  return reduction_ ? context.wait(reduction_) : Status();
}

std::span<const float> Bucket::averages(std::vector<float>& scratch) const {
  const std::byte* const mine = averages_.data ? averages_.data.get() : at(space_, low_);
  if (!is_half(dtype_)) return {reinterpret_cast<const float*>(mine), chunk_};
  scratch.resize(chunk_);
  convert(dtype_, mine, DType::kFloat32, scratch.data(), chunk_);
  return scratch;
}

DoubleDouble Bucket::squares() const {
  std::vector<float> scratch;
  return kernels::sum_of_squares(averages(scratch));
}

void Bucket::forget_gradients() {
  reduction_.reset();
  asked_.assign(asked_.size(), false);
  ready_.assign(ready_.size(), false);
}

void Bucket::take_written_values() {
  if (!is_half(dtype_)) return;
  auto* const now = reinterpret_cast<const std::uint16_t*>(at(values_, low_));
  std::vector<float>& kept = state_.back();
  std::vector<std::uint16_t> before(chunk_);
  convert(DType::kFloat32, kept.data(), dtype_, before.data(), chunk_);
  for (std::size_t i = 0; i < chunk_; ++i) {
    if (before[i] != now[i]) convert(dtype_, now + i, DType::kFloat32, &kept[i], 1);
  }
}

void Bucket::update(const Update& how) {
  std::vector<float> scratch;
  const bool half = is_half(dtype_);
  take_written_values();
  auto* const values = reinterpret_cast<float*>(at(values_, low_));
  const Chunk chunk{averages(scratch), half ? state_.back().data() : values, state_};
  std::visit([&](const auto& rule) { update_by(rule, how, chunk); }, how.rule);
  if (half) take_state();
}

void Bucket::take_state() {
  if (!is_half(dtype_)) return;
  convert(DType::kFloat32, state_.back().data(), dtype_, at(values_, low_), chunk_);
}

void Bucket::gather(const Context& context) {
  Submission gather = submission(Collective::kAllgather, "values", chunk_);
  gather.inputs = {at(values_, low_)};
  gather.outputs = {values_.data.get()};
  returning_ = context.start(std::move(gather), values_.data);
}

void Bucket::broadcast(const Context& context) {
  Submission broadcast = submission(Collective::kBroadcast, "first values", count_);
  broadcast.request.root = context.ranks.front();
  broadcast.inputs = {values_.data.get()};
  broadcast.outputs = {values_.data.get()};
  throw_if_error(context.wait(context.start(std::move(broadcast), values_.data)));
  take_written_values();
}

Status Bucket::wait_for_values(const Context& context) {
  if (!returning_) return {};
  Status status = context.wait(returning_);
  if (returning_->done()) returning_.reset();
  return status;
}

std::vector<std::span<float>> Bucket::state() { return {state_.begin(), state_.end()}; }

std::vector<std::span<const float>> Bucket::state() const { return {state_.begin(), state_.end()}; }

}  // namespace ronde::sharded
