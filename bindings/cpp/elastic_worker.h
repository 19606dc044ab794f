// This process as a worker of an elastic job: its place in one epoch after another. An epoch is a
// job of fixed ranks; only the launcher begins one.
#pragma once

#include <utility>

#include "bindings/cpp/internal.h"
#include "bindings/elastic/member.h"
#include "ronde/elastic.h"

namespace ronde::elastic {

/// True for an error of this epoch alone: the next one may go on.
bool recoverable(const Error& error);

/// This process's; null without a launcher of elastic jobs. Throws InvalidArgument for a descriptor
/// that is no launcher's.
Member* worker_of_process();

/// Makes `job` the launcher's next epoch whose ranks can all be reached. False if this worker is to
/// end, with status 0. Blocks. Throws JobFailed, LauncherLost, and errors that would come again.
[[nodiscard]] bool join(Member& worker, Job::Impl& job);

/// Remembers what ended the epoch, for the launcher.
void note_failure(Member& worker, const Error& error);

/// The status of a note. Throws LauncherLost for kUnavailable.
void check_note(const Status& status);

}  // namespace ronde::elastic
