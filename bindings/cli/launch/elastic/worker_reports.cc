#include "bindings/cli/launch/elastic/worker_reports.h"

#include <fmt/format.h>

#include <utility>

#include "bindings/cli/launch/elastic/worker_notes.h"
#include "bindings/cli/launch/failure_report.h"
#include "bindings/cli/launch/process.h"
#include "bindings/cli/launch/traceback.h"

namespace ronde {

using elastic::WorkerId;

void WorkerReports::on_frame(const std::string& host, const Frame& frame) {
  const auto pass_on = [&](const auto& message) { on_message(host, message); };
  switch (frame.type) {
    case FrameType::kNote:
      return with_message<NoteMessage>(frame, pass_on);
    case FrameType::kOutput:
      return with_message<OutputMessage>(frame, pass_on);
    case FrameType::kAnswer:
      return with_message<AnswerMessage>(frame, pass_on);
    case FrameType::kProcessExit:
      return to_.agents.send_to_others(host, encode_frame(frame.type, frame.payload));
    case FrameType::kExited:
      return with_message<RankMessage>(frame, [&](const RankMessage& rank) { on_exited(rank); });
    case FrameType::kStarted:
      return with_message<RankMessage>(frame, [&](const RankMessage& rank) { on_started(rank); });
    case FrameType::kCannotStart:
      return with_message<CannotStartMessage>(frame, pass_on);
    case FrameType::kFrozen:
      return with_message<FrozenMessage>(frame, pass_on);
    case FrameType::kProbed:
      return with_message<ProbedMessage>(frame, pass_on);
    case FrameType::kListening:
      return with_message<ListeningMessage>(
          frame, [&](const ListeningMessage& answer) { to_.trials.on_listening(host, answer); });
    case FrameType::kReached:
      return with_message<ReachedMessage>(
          frame, [&](const ReachedMessage& answer) { to_.trials.on_reached(host, answer); });
    default:
      return;
  }
}

void WorkerReports::on_message(const std::string& host, const ProbedMessage& answer) {
  const Status status = to_.announcer.on_probed(host, answer);
  if (!status.ok()) to_.ending.fail(1, status.message());
}

void WorkerReports::on_message(const std::string& /*host*/, const OutputMessage& output) {
  to_.console.pass_on(output.rank, output.stream, output.bytes);
}

void WorkerReports::on_message(const std::string& /*host*/, const AnswerMessage& answer) {
  const Status status = to_.call_folder.take(answer);
  if (!status.ok()) to_.ending.fail(1, status.message());
}

// Notes.

void WorkerReports::on_message(const std::string& host, const NoteMessage& note) {
  const WorkerId id = worker_of(note.rank);
  const LaunchedWorker* worker = to_.workers.find(id);
  if (worker == nullptr || worker->host != host) return;
  const Status status =
      visit_note(note.bytes, [&](const auto& content) { take_note(id, content); });
  if (!status.ok()) to_.console.say(fmt::format("worker {}: {}", id, status.message()));
}

void WorkerReports::take_note(WorkerId id, const elastic::ReadyNote& note) {
  for (const WorkerId suspect : note.suspects) watch_end(suspect);
  to_.workers.find(id)->ready = note;
  to_.story.on_ready(id, note);
  to_.director.on_ready(id, note, now());
}

/// The next epoch waits for its end, or for itself.
void WorkerReports::watch_end(WorkerId suspect) {
  const LaunchedWorker* worker = to_.workers.find(suspect);
  if (worker != nullptr) {
    to_.agents.send(worker->host, encode(SuspectMessage{agent_rank(suspect)}));
  }
}

void WorkerReports::take_note(WorkerId id, const elastic::HoldsNote& note) {
  to_.workers.find(id)->ready.holds_state = note.holds_state;
  if (note.holds_state) to_.director.on_holds(id);
}

void WorkerReports::take_note(WorkerId id, const elastic::LeavingNote& note) {
  to_.console.say(fmt::format("worker {} leaves{}{}", id, note.why.empty() ? "" : ": ", note.why));
  to_.ending.let_a_worker_save();
  to_.story.on_leaving(id);
  to_.director.on_leaving(id, now());
}

void WorkerReports::take_note(WorkerId id, const elastic::FinishedNote& /*note*/) {
  to_.story.on_finished(id);
  to_.director.on_finished(id, now());
}

// Processes.

void WorkerReports::on_started(const RankMessage& message) {
  const WorkerId id = worker_of(message.rank);
  LaunchedWorker* worker = to_.workers.find(id);
  if (worker == nullptr) return;
  worker->pid = message.pid;
  to_.story.on_started(id, message.pid);
  to_.director.on_started(id, message.copy_step);
}

/// Prints the worker's traceback. Returns its exception, with a colon before it.
std::string WorkerReports::print_error(const RankMessage& message) {
  const HeldErrors::Ending ending = to_.console.held().take(message.rank);
  const auto error = read_error(ending.text);
  if (!ending.printed && (!error || message.wait_status == 0)) {
    to_.console.pass_on_held(message.rank, ending.text);
  } else if (!ending.printed) {
    const std::string sentence = error->error.sentence();
    const bool known = std::exchange(last_error_, sentence) == sentence;
    const bool in_short = known || error->error.consequence || to_.ending.begun();
    to_.console.print(message.rank, in_short ? std::vector{one_line(*error)} : error->shorter);
  }
  return error && message.wait_status != 0 ? ": " + error->error.sentence() : "";
}

void WorkerReports::on_exited(const RankMessage& message) {
  joins_.on_exited(message);
  const WorkerId id = worker_of(message.rank);
  const LaunchedWorker* worker = to_.workers.find(id);
  if (worker == nullptr) return;
  const std::string text =
      fmt::format("(pid {}{}) {}{}", message.pid, to_.hosts.where(worker->host),
                  describe_wait_status(message.wait_status), print_error(message));
  if (message.wait_status != 0 && !worker->stopped && !to_.ending.begun()) {
    to_.console.say_after_output(fmt::format("worker {} {}", id, text));
  }
  on_ended(id, {exit_status_of(message.wait_status), text, message.copy_step});
}

void WorkerReports::on_message(const std::string& host, const CannotStartMessage& message) {
  const WorkerId id = worker_of(message.rank);
  if (to_.workers.find(id) == nullptr) return;
  const std::string text = fmt::format("cannot start{}: {}", to_.hosts.where(host), message.text);
  if (!to_.ending.begun()) to_.console.say(fmt::format("worker {} {}", id, text));
  on_ended(id, {message.exit_status, text});
}

void WorkerReports::on_message(const std::string& /*host*/, const FrozenMessage& message) {
  const std::chrono::seconds stopped_for(message.seconds);
  to_.director.on_frozen(worker_of(message.rank), stopped_for, now());
}

void WorkerReports::on_ended(WorkerId id, const elastic::WorkerEnd& end) {
  const LaunchedWorker* worker = to_.workers.find(id);
  const bool stopped = worker != nullptr && worker->stopped;
  to_.story.on_ended(id, end,
                     to_.ending.begun() ? EndCause::kJobEnds
                     : stopped          ? EndCause::kStopped
                                        : EndCause::kItself);
  to_.workers.remove(id);
  to_.director.on_ended(id, end, now());
}

}  // namespace ronde
