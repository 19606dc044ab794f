#include "bindings/cpp/elastic_worker.h"

#include <memory>
#include <utility>
#include <variant>

#include "core/base/settings/config.h"
#include "core/elastic/recovery.h"

namespace ronde::elastic {
namespace {

/// Shuts down the last epoch's runtime, which stays there for calls like rank().
void leave(const Job::Impl& job) {
  if (job.runtime) job.runtime->shutdown();
}

/// False if the launcher has no place for this worker any more.
bool next_place(Member& worker) {
  const Result<Answer> answer = worker.next_epoch({});
  check_note(answer.status());
  const auto* const dismissed = std::get_if<DismissedNote>(&*answer);
  if (dismissed == nullptr) return true;
  if (dismissed->failed) throw JobFailed("the launcher has ended this worker: " + dismissed->why);
  return false;
}

Status enter(Member& worker, Job::Impl& job) {
  RONDE_ASSIGN_OR_RETURN(const Settings settings, worker.settings(*worker.place()));
  RONDE_ASSIGN_OR_RETURN(Config config, config_from(process_environment()));
  RONDE_ASSIGN_OR_RETURN(config, config_with(std::move(config), settings));
  JoinOptions options{worker.cancel_source(config.job_id), job.runtime.get()};
  auto runtime = Runtime::create(config, std::move(options));
  if (!runtime.ok()) {
    if (const auto& failed = runtime.status().failed_rank()) worker.failed({}, failed->rank);
    return runtime.status();
  }
  job.enter(std::move(*runtime));
  worker.began();
  if (!job.elastic_sets) job.elastic_sets = std::make_unique<SetTable>();
  return job.elastic_sets->make_again(*job.runtime, *worker.place());
}

}  // namespace

bool recoverable(const Error& error) {
  if (dynamic_cast<const LauncherLost*>(&error) != nullptr) return false;
  if (dynamic_cast<const JobFailed*>(&error) != nullptr) return false;
  return recovery_of(error.code()) != Recovery::kNone;
}

Member* worker_of_process() { return value_or_throw(Member::of_process()); }

bool join(Member& worker, Job::Impl& job) {
  leave(job);
  while (next_place(worker)) {
    try {
      throw_if_error(enter(worker, job));
      return true;
    } catch (const Error& error) {
      leave(job);
      if (!recoverable(error)) throw;
      note_failure(worker, error);
    }
  }
  return false;
}

void note_failure(Member& worker, const Error& error) {
  const auto* failure = dynamic_cast<const RankFailure*>(&error);
  worker.failed(error.what(), failure == nullptr ? -1 : failure->rank());
}

void check_note(const Status& status) {
  if (status.code() == Code::kUnavailable) throw LauncherLost(status.message());
  throw_if_error(status);
}

}  // namespace ronde::elastic
