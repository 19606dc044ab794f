#include "bindings/cpp/elastic/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bindings/cpp/internal.h"

namespace ronde::elastic {
namespace {

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
  if (copies_.empty()) copies_.save(step_);
  copies_.save(step_ + 1);
  older_step_ = std::exchange(step_, step_ + 1);
  const auto change = agree_on_changes();
  certain_ = step_;
  job_.mark_commit(static_cast<std::uint64_t>(certain_));
  act_on(change);
}

void State::Impl::prepare() {
  if (worker_ != nullptr) copies_.share(*worker_);
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
  const std::int64_t step = newest + 2;  // a rank that has died may have copied the one before
  copies_.save(step);
  older_step_ = std::exchange(step_, step);
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
  if (!mine.holds_state) mine.adopted = copies_.adopted_steps();
  const std::vector<StartRow> rows = exchange_starts(job_, mine);
  if (std::ranges::all_of(rows, &StartRow::skip_sync)) return false;
  const bool held = std::ranges::any_of(rows, &StartRow::holds_state);
  const std::int64_t step = held ? restore_chosen(rows, restored) : resume(rows);
  if (!mine.adopted.has(step)) end_adoption(false);
  return true;
}

/// Chooses the rank that sends. Goes back to its step, unless all ranks are at it. A worker that
/// replaces one that died at this step goes on with its own parts. Returns the step.
std::int64_t State::Impl::restore_chosen(const std::vector<StartRow>& rows, bool restored) {
  const std::int64_t newest = committed_step(rows);
  const auto sender = std::ranges::find_if(
      rows, [&](const StartRow& row) { return row.holds_state && row.has(newest); });
  if (sender == rows.end()) {
    throw Error(Code::kInternal, fmt::format("no rank holds step {}, which was committed", newest));
  }
  root_ = static_cast<int>(sender - rows.begin());
  const bool at_it = restored && step_ == newest;
  if (!worker_->holds_state()) {
    if (copies_.adopted_steps().has(newest)) copies_.put_adopted(newest, true);
  } else if (!at_it && any_restored(rows)) {
    go_back(newest);
  }
  return newest;
}

/// To a copy of this step, or to the newest, which sync() mends.
void State::Impl::go_back(std::int64_t step) {
  if (older_step_ != step) return copies_.restore();
  copies_.restore_older();
  step_ = std::exchange(older_step_, -1);
}

/// Nobody holds the state: all go on from copies of workers that died, or begin. Copies of one step
/// were made by all workers, or are at most one step older than others; those before it are of
/// workers that died earlier. Returns their step; -1: there are none.
std::int64_t State::Impl::resume(const std::vector<StartRow>& rows) {
  std::int64_t newest = -1;
  for (const StartRow& row : rows) newest = std::max(newest, row.adopted.newest);
  root_ = 0;
  if (newest < 0) return -1;
  std::int64_t step = newest;
  for (const StartRow& row : rows) {
    const std::int64_t copied = row.adopted.newest;
    if (copied >= std::max<std::int64_t>(newest - 1, 0)) step = std::min(step, copied);
  }
  const auto sender =
      std::ranges::find_if(rows, [&](const StartRow& row) { return row.adopted.has(step); });
  root_ = static_cast<int>(sender - rows.begin());
  if (copies_.adopted_steps().has(step)) {
    copies_.put_adopted(step, false);
    step_ = certain_ = step;
  }
  return step;
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
  end_adoption(true);
}

void State::Impl::end_adoption(bool used) {
  copies_.end_adoption(used);
  worker_->end_adoption();
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
