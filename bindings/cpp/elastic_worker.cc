#include "bindings/cpp/elastic_worker.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/cpp/internal.h"
#include "bindings/elastic/inherited_copies.h"
#include "core/base/settings/config.h"
#include "core/elastic/recovery.h"
#include "ronde/elastic.h"

namespace ronde::elastic {
namespace {

/// Throws LauncherLost for kUnavailable, as Member has it.
void check(const Status& status) {
  if (status.code() == Code::kUnavailable) throw LauncherLost(status.message());
  throw_if_error(status);
}

template <typename T>
T checked(Result<T> result) {
  check(result.status());
  return std::move(result).value();
}

/// Shuts down the last epoch's runtime, which stays there for calls like rank().
void leave(const Job::Impl& job) {
  if (job.runtime) job.runtime->shutdown();
}

}  // namespace

bool recoverable(const Error& error) {
  if (dynamic_cast<const LauncherLost*>(&error) != nullptr) return false;
  if (dynamic_cast<const JobFailed*>(&error) != nullptr) return false;
  return recovery_of(error.code()) != Recovery::kNone;
}

Worker::Worker(Member& member) : member_(member), inherited_(take_inherited_copies(&member)) {
  part_.has_copies = !inherited_.steps().empty();
}

Worker* Worker::of_process() {
  Member* const member = value_or_throw(Member::of_process());
  if (member == nullptr) return nullptr;
  static Worker* const kWorker = new Worker(*member);  // never ended, as the member
  return kWorker;
}

bool Worker::join(Job::Impl& job) {
  leave(job);
  while (next_place()) {
    try {
      throw_if_error(enter(job));
      return true;
    } catch (const Error& error) {
      leave(job);
      if (!recoverable(error)) throw;
      note_failure(error);
    }
  }
  return false;
}

/// False if the launcher has no place for this worker any more.
bool Worker::next_place() {
  Answer answer = checked(member_.next_epoch(part_.ready(), {}));
  part_.answered();
  if (auto* place = std::get_if<EpochNote>(&answer)) {
    part_.placed(std::move(*place));
    return true;
  }
  const auto& dismissed = std::get<DismissedNote>(answer);
  if (dismissed.failed) throw JobFailed("the launcher has ended this worker: " + dismissed.why);
  return false;
}

Status Worker::enter(Job::Impl& job) {
  RONDE_ASSIGN_OR_RETURN(const Settings settings, member_.settings(place()));
  RONDE_ASSIGN_OR_RETURN(Config config, config_from(process_environment()));
  RONDE_ASSIGN_OR_RETURN(config, config_with(std::move(config), settings));
  JoinOptions options{member_.cancel_source(config.job_id), job.runtime.get()};
  auto runtime = Runtime::create(config, std::move(options));
  if (!runtime.ok()) {
    if (const auto& failed = runtime.status().failed_rank()) part_.failed({}, failed->rank);
    return runtime.status();
  }
  job.enter(std::move(*runtime));
  part_.began = true;
  if (!job.elastic_sets) job.elastic_sets = std::make_unique<SetTable>();
  return job.elastic_sets->make_again(*job.runtime, place());
}

void Worker::note_failure(const Error& error) {
  const auto* failure = dynamic_cast<const RankFailure*>(&error);
  part_.failed(error.what(), failure == nullptr ? -1 : failure->rank());
}

std::optional<Change> Worker::change_after(std::uint64_t& serial) {
  const ChangedNote note = checked(member_.changes());
  if (note.serial <= serial) return std::nullopt;
  serial = note.serial;
  return note.change;
}

bool Worker::state_is_held() const {
  return std::ranges::any_of(place().workers, &EpochWorker::holds_state);
}

void Worker::hold_state() {
  if (std::exchange(part_.holds_state, true)) return;
  check(member_.send(HoldsNote{}));
}

void Worker::finish() { check(member_.send_finished()); }

}  // namespace ronde::elastic
