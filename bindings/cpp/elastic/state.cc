#include "bindings/cpp/elastic/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bindings/cpp/internal.h"

namespace ronde::elastic {
namespace {

bool held_step(const StartRow& row, std::int64_t step) {
  return row.step == step || row.older_step == step;
}

/// The step that was committed last; some holder may not know yet that it was.
std::int64_t committed_step(const std::vector<StartRow>& rows) {
  std::int64_t newest = 0;
  for (const StartRow& row : rows) {
    if (row.holds_state) newest = std::max(newest, row.certain);
  }
  return newest;
}

bool any_restored(const std::vector<StartRow>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const StartRow& row) { return row.holds_state && row.restored; });
}

}  // namespace

State::Impl::Impl(Job& job) : job_(job), worker_(Worker::of_process()) {}

void State::Impl::commit() {
  save_first();
  copies_.save(step_ + 1);
  older_step_ = std::exchange(step_, step_ + 1);
  const auto change = agree_on_changes();
  certain_ = step_;
  act_on(change);
}

void State::Impl::save_first() {
  if (copies_.empty()) copies_.save(step_);
}

std::optional<Change> State::Impl::agree_on_changes() {
  const auto mine = worker_ == nullptr ? std::nullopt : worker_->change_after(serial_);
  return agree(job_, mine, false).change;
}

void State::Impl::act_on(std::optional<Change> change) {
  if (change) throw HostsUpdated(*change == Change::kRemoved);
}

void State::Impl::sync() {
  const std::int64_t newest = newest_step(job_, step_);  // ranks that joined commit less often
  broadcast();
  copies_.save(newest + 1);
  older_step_ = std::exchange(step_, newest + 1);
  certain_ = step_;
}

void State::Impl::broadcast() {
  std::vector<Pending> sent;
  for (const Part& part : copies_.parts()) {
    if (part.owner == Owner::kRank) continue;
    sent.push_back(job_.broadcast_async("elastic.tensor." + part.name, part.tensor, root_));
  }
  for (const Pending& one : sent) one.wait();
}

bool State::Impl::rejoin() {
  if (worker_ != nullptr) return worker_->join(job_.impl());
  restart(job_.impl());
  return true;
}

bool State::Impl::choose(bool restored, bool skip_sync) {
  StartRow mine;
  mine.holds_state = worker_->holds_state();
  mine.restored = restored;
  mine.skip_sync = skip_sync && mine.holds_state;
  mine.certain = certain_;
  mine.step = step_;
  mine.older_step = older_step_;
  const std::vector<StartRow> rows = exchange_starts(job_, mine);
  const bool all_skip =
      std::all_of(rows.begin(), rows.end(), [](const StartRow& row) { return row.skip_sync; });
  if (!all_skip) restore_chosen(rows, restored);
  return !all_skip;
}

/// Chooses the rank that sends. Goes back to its step, unless all ranks are at it.
void State::Impl::restore_chosen(const std::vector<StartRow>& rows, bool restored) {
  const bool held =
      std::any_of(rows.begin(), rows.end(), [](const StartRow& row) { return row.holds_state; });
  root_ = 0;
  if (!held) return;
  const std::int64_t newest = committed_step(rows);
  const auto sender = std::find_if(rows.begin(), rows.end(), [&](const StartRow& row) {
    return row.holds_state && held_step(row, newest);
  });
  if (sender == rows.end()) {
    throw Error(Code::kInternal, fmt::format("no rank holds step {}, which was committed", newest));
  }
  root_ = static_cast<int>(sender - rows.begin());
  if (!worker_->holds_state() || (restored && step_ == newest) || !any_restored(rows)) return;
  if (older_step_ == newest) {
    copies_.restore_older();
    step_ = std::exchange(older_step_, -1);
  } else {  // it is this step, or sync() mends it
    copies_.restore();
  }
}

void State::Impl::call_back() const {
  for (const auto& callback : callbacks_) callback();
}

void State::Impl::begin(bool send) {
  if (send) {
    sync();
    root_ = 0;
  }
  meet(job_);
  certain_ = step_;
  worker_->hold_state();
}

void State::Impl::finish() {
  Agreement agreed{{}, true};
  while (agreed.running && !agreed.change) agreed = agree(job_, std::nullopt, true);
  if (agreed.running) act_on(agreed.change);
  worker_->finish();
}

State::State(Job& job) : impl_(std::make_unique<Impl>(job)) {}
State::~State() = default;

void State::add(const std::string& name, const Tensor& tensor, Owner owner) {
  impl_->copies().add({name, tensor, owner});
}
void State::on_reset(std::function<void()> callback) { impl_->add_callback(std::move(callback)); }
void State::commit() { impl_->commit(); }
void State::check_host_updates() { impl_->check_host_updates(); }
void State::restore() { impl_->restore(); }
void State::sync() { impl_->sync(); }
std::int64_t State::step() const noexcept { return impl_->step(); }

}  // namespace ronde::elastic
