#include "bindings/cpp/elastic_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "bindings/cpp/internal.h"
#include "core/base/bytes.h"
#include "core/base/join_text.h"
#include "core/base/log.h"

namespace ronde::elastic {
namespace {

/// A rank's message once it has loaded a checkpoint, or had none to load.
struct LoadFacts {
  std::string problem;  ///< Empty: none.
  static void fields(auto& wire, auto& self) { wire(self.problem); }
};

/// There are checkpoints, but none is whole.
void begin_from_scratch(bool forbidden, bool warns) {
  const std::string text = "no checkpoint is whole";
  if (forbidden) {
    throw JobFailed(text +
                    ", and the options forbid to begin from scratch: bring back a whole one, or "
                    "remove those that are damaged");
  }
  if (warns) log_line(LogLevel::kWarning, text + ". Training begins from scratch");
}

}  // namespace

Ranks State::Impl::ranks() { return Ranks(*job_.impl().runtime); }

State::Impl::Impl(Job& job) : job_(job), worker_(worker_of_process()) {}

void State::Impl::commit() {
  if (copies_.empty()) copies_.save(progress_.step());
  const Progress before = progress_;
  copy();
  progress_.copied_since(before);
  if (worker_ != nullptr && partners_.due()) send_own();
  const CommitFacts facts = agree_on_changes();
  progress_.committed();
  job_.mark_commit(static_cast<std::uint64_t>(progress_.certain()));
  if (checkpoints_) write_due();
  act_on(facts);
}

void State::Impl::checkpoint(const std::string& path, const CheckpointOptions& options) {
  if (std::filesystem::path(path).filename().empty()) {
    throw InvalidArgument(fmt::format("checkpoint(\"{}\"): the path has no name", path));
  }
  if (options.every < 1 || options.keep < 1) {
    throw InvalidArgument(fmt::format("checkpoint(): every={}, keep={}; allowed: numbers from 1",
                                      options.every, options.keep));
  }
  checkpoint_every_ = options.every;
  checkpoints_ = std::make_unique<CheckpointFiles>(std::filesystem::absolute(path),
                                                   std::vector<std::string>{".state"}, options.keep,
                                                   options.needs_whole);
  if (worker_ == nullptr) return;
  StartFacts facts;
  tell_checkpoints(facts);
  worker_->can_load(facts.checkpoint > 0);
}

/// Adds what this rank can load.
void State::Impl::tell_checkpoints(StartFacts& facts) {
  end_writing();
  checkpoints_->tell(facts);
  report_checkpoints();
}

void State::Impl::end_writing() {
  checkpoints_->wait();
  report_checkpoints();
}

/// Training goes on with its problems.
void State::Impl::report_checkpoints() {
  for (const std::string& problem : checkpoints_->take_problems(job_.local_rank() == 0)) {
    log_line(LogLevel::kWarning, problem);
  }
}

void State::Impl::write_due() {
  report_checkpoints();
  if (job_.rank() == 0 && progress_.certain() % checkpoint_every_ == 0) {
    checkpoints_->write_later(progress_.certain(), copies_.pack(Owner::kJob));
  }
}

void State::Impl::write_committed() {
  if (!checkpoints_) return;
  checkpoints_->wait();
  const std::int64_t step = progress_.step();
  if (!checkpoints_->whole(step)) checkpoints_->write(step, as_bytes(copies_.pack(Owner::kJob)));
  report_checkpoints();
}

void State::Impl::copy() {
  copies_.save(progress_.next_step());
  progress_.copied();
}

void State::Impl::prepare() {
  if (worker_ != nullptr) copies_.share(*worker_);
  if (copies_.empty()) copies_.save(progress_.step());
}

/// The newest change that should end this epoch, once. Throws LauncherLost.
std::optional<Change> State::Impl::new_change() {
  if (worker_ == nullptr) return std::nullopt;
  const Result<ChangedNote> note = worker_->changes();
  check_note(note.status());
  if (note->serial <= serial_) return std::nullopt;
  serial_ = note->serial;
  return note->change;
}

CommitFacts State::Impl::agree_on_changes() {
  const auto mine = new_change();
  const auto has = [&](Change kind) {
    return mine && (static_cast<int>(*mine) & static_cast<int>(kind)) != 0;
  };
  return value_or_throw(
      ranks().agree({mine.has_value(), has(Change::kAdded), has(Change::kRemoved), true}));
}

void State::Impl::act_on(const CommitFacts& facts) {
  if (facts.changed) throw HostsUpdated(facts.only_removed());
}

void State::Impl::sync() {
  // Ranks that have joined commit less often.
  const std::int64_t newest = value_or_throw(ranks().newest_step(progress_.step()));
  broadcast();
  progress_.synced(newest);
  copy();
}

void State::Impl::broadcast() {
  std::vector<Pending> sent;
  for (const Part& part : copies_.parts()) {
    if (part.owner == Owner::kRank) continue;
    sent.push_back(
        job_.broadcast_async("elastic.tensor." + part.name, part.tensor, progress_.root()));
  }
  for (const Pending& one : sent) one.wait();
}

bool State::Impl::rejoin() {
  if (worker_ != nullptr) return join(*worker_, job_.impl());
  restart(job_.impl());
  return true;
}

bool State::Impl::choose(bool restored, bool skip_sync) {
  StartFacts mine = progress_.facts();
  mine.holds_state = worker_->holds_state();
  mine.alike = !partners_.hands_over();
  mine.restored = restored;
  mine.skip_sync = skip_sync && mine.holds_state && !partners_.hands_over();
  if (checkpoints_ && !worker_->state_is_held()) tell_checkpoints(mine);
  if (!mine.holds_state) mine.adopted = copies_.adopted_steps();
  const auto told = value_or_throw(ranks().gather("elastic.start", mine));
  const Start start = value_or_throw(progress_.choose(mine, told));
  chosen_ = start.step;
  copies_.restore(start);
  load(start);
  if (!start.keeps_adopted) end_adoption(false);
  return start.sends;
}

void State::Impl::resume() {
  if (!checkpoints_) return;
  StartFacts mine;
  tell_checkpoints(mine);
  load(progress_.choose_checkpoint(mine, value_or_throw(ranks().gather("elastic.start", mine))));
}

/// Throws on all ranks what the loading throws on any.
void State::Impl::load(const Start& start) {
  if (start.damaged) begin_from_scratch(start.needs_whole, job_.rank() == 0);
  if (start.checkpoint == 0) return;
  LoadFacts mine;
  if (start.loads) {
    try {
      copies_.unpack(Owner::kJob, value_or_throw(checkpoints_->read(start.checkpoint)));
    } catch (const Error& error) {
      mine.problem = fmt::format(
          "{}: {}", checkpoints_->whole(start.checkpoint).value_or("it").string(), error.what());
    }
  }
  const auto all = value_or_throw(ranks().gather("elastic.loaded", mine));
  const auto unfit = std::ranges::find_if_not(all, &std::string::empty, &LoadFacts::problem);
  if (unfit == all.end()) return;
  throw InvalidArgument(fmt::format("rank {} cannot load the checkpoint of step {}: {}",
                                    unfit - all.begin(), start.checkpoint, unfit->problem));
}

/// Gives the own parts of workers that are gone to others.
void State::Impl::settle_own() {
  const bool any = std::ranges::any_of(copies_.parts(),
                                       [](const Part& part) { return part.owner == Owner::kRank; });
  if (!any) return;
  const bool adopts = chosen_ && copies_.adopted_steps().has(*chosen_);
  const OwnFacts mine{worker_->holds_state(), adopts ? copies_.adopted_worker() : 0, 0};
  Ranks all = ranks();
  const SettledStates settled =
      value_or_throw(partners_.settle(all, *worker_->place(), chosen_, mine));
  if (settled.mine) copies_.unpack(Owner::kRank, *settled.mine);
  for (const std::string& one : settled.orphans) {
    if (on_orphan_) on_orphan_(copies_.orphan(one));
  }
  if (job_.rank() == 0 && !settled.lost.empty()) report_lost(settled.lost);
}

/// Sends the newest copy of own parts to the partner.
void State::Impl::send_own() {
  if (!partners_.hands_over() || job_.size() == 1) return;
  const EpochNote& place = *worker_->place();
  if (partners_.warns_of_one_host(place)) {
    log_line(LogLevel::kWarning,
             fmt::format("redundancy: all ranks are on {}; if it is lost, so are the copies of "
                         "their own parts",
                         place.workers[0].host));
  }
  Ranks all = ranks();
  throw_if_error(partners_.send(all, place, progress_.step(), copies_.pack(Owner::kRank)));
}

void State::Impl::report_lost(const std::vector<WorkerId>& lost) const {
  const char* const hint = partners_.hands_over() ? "" : "; set_redundancy() keeps copies";
  log_line(LogLevel::kWarning,
           fmt::format("own parts are lost of worker{} {}{}", lost.size() == 1 ? "" : "s",
                       join_text(lost, ", "), hint));
}

void State::Impl::call_back() const {
  for (const auto& callback : callbacks_) callback();
}

void State::Impl::begin(bool send) {
  settle_own();
  if (send) sync();
  send_own();
  throw_if_error(ranks().meet());
  progress_.begun();
  partners_.begun(*worker_->place());
  check_note(worker_->hold_state());
  end_adoption(true);
}

void State::Impl::end_adoption(bool used) {
  copies_.end_adoption(used);
  worker_->end_adoption();
}

void State::Impl::finish() {
  CommitFacts facts;
  do {
    facts = value_or_throw(ranks().agree({}));
  } while (facts.running && !facts.changed);
  if (facts.running) act_on(facts);
  check_note(worker_->send_finished());
}

const std::vector<std::byte>& Orphan::bytes_of(const std::string& name) const {
  const auto part = parts_.find(name);
  if (part != parts_.end()) return part->second;
  throw InvalidArgument(fmt::format("the state has no own part \"{}\"", name));
}

State::State(Job& job) : impl_(std::make_unique<Impl>(job)) {}
State::~State() = default;

void State::add(const std::string& name, const Tensor& tensor, Owner owner) {
  impl_->copies().add({name, tensor, owner});
}
void State::on_reset(std::function<void()> callback) { impl_->add_callback(std::move(callback)); }
void State::set_redundancy(int every) {
  if (every < 1) throw InvalidArgument(fmt::format("set_redundancy({}); allowed: from 1", every));
  impl_->enable_partners(every);
}
void State::on_orphan(std::function<void(const Orphan&)> callback) {
  impl_->on_orphan(std::move(callback));
}
void State::checkpoint(const std::string& path, const CheckpointOptions& options) {
  impl_->checkpoint(path, options);
}
void State::commit() { impl_->commit(); }
void State::check_host_updates() { impl_->check_host_updates(); }
void State::restore() { impl_->restore(); }
void State::sync() { impl_->sync(); }
std::int64_t State::step() const noexcept { return impl_->step(); }

}  // namespace ronde::elastic
