#include "bindings/cli/launch/local_ranks.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "bindings/cli/launch/this_host.h"
#include "core/base/os/interfaces.h"
#include "core/base/os/memory_file.h"
#include "core/elastic/notes.h"

namespace ronde {
namespace {

/// There is one thread.
void set_variables(const EnvironmentList& list) {
  for (const std::string& entry : list) {
    const std::size_t equals = entry.find('=');
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
}

void enter(const std::string& directory) {
  if (::chdir(directory.c_str()) == 0) return;
  const std::string why = std::generic_category().message(errno);
  fmt::print(stderr, "ronde run: {}: cannot enter {}: {}; the ranks start in the home directory\n",
             host_name(), directory, why);
}

/// The first word is the step + 1 once the copy is whole.
std::int64_t step_of(const FileDescriptor& file) {
  std::uint64_t word = 0;
  const bool has_word =
      file.valid() && ::pread(file.get(), &word, sizeof(word), 0) == ssize_t{sizeof(word)};
  return has_word ? static_cast<std::int64_t>(word) - 1 : kNoCopies;
}

}  // namespace

void LocalRanks::set_up(StartMessage message) {
  job_ = std::move(message);
  is_set_up_ = true;
  liveness_.set_freeze_limit(std::chrono::seconds(job_.freeze_seconds));
  set_variables(job_.environment);
  enter(job_.directory);
  const cpu_set_t allowed = allowed_cpus();
  const int threads = omp_threads(CPU_COUNT(&allowed), places());
  // There is one thread.  NOLINTBEGIN(concurrency-mt-unsafe)
  ::setenv("OMP_NUM_THREADS", fmt::to_string(threads).c_str(), 0);
  ::setenv("PYTHONUNBUFFERED", "1", 0);
  // NOLINTEND(concurrency-mt-unsafe)
  nodes_ = numa_nodes(allowed);
  for (const Status& status : {exit_log_.open(), joins_.open(), server_.open(), keep_secret()}) {
    if (!status.ok()) fmt::print(stderr, "ronde run: {}: {}\n", host_name(), status.message());
  }
  ::setenv(kJoinVariable, joins_.name().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  for (const RankStart& rank : job_.ranks) start(rank);
}

Status LocalRanks::keep_secret() {
  if (job_.secret.empty()) return {};
  RONDE_ASSIGN_OR_RETURN(secret_, make_memory_text("ronde-secret", job_.secret));
  return {};
}

int LocalRanks::free_place() const {
  for (int place = 0;; ++place) {
    if (std::ranges::find(running_, place, &Running::place) == running_.end()) return place;
  }
}

void LocalRanks::cannot_start(int rank, int exit_status, const std::string& why) {
  send_(encode(CannotStartMessage{rank, exit_status, why}));
}

void LocalRanks::start(const RankStart& start) {
  if (!call_.status().ok()) {
    const std::string& why = call_.status().message();
    return cannot_start(start.rank, 126, fmt::format("{} on {}", why, host_name()));
  }
  auto out = make_pipe();
  auto err = make_pipe();
  Running rank{start.rank, free_place(), -1, {}, {}, {}, {}};
  auto in = start.rank == job_.options.stdin_rank ? make_pipe() : Pipe();
  Result<FileDescriptor> notes = job_.elastic ? rank.notes.open() : FileDescriptor();
  auto answer = call_.is_there() ? make_answer_file() : FileDescriptor();
  if (!out.ok() || !err.ok() || !in.ok() || !notes.ok() || !answer.ok()) {
    return cannot_start(start.rank, 126, "too many open files on " + host_name());
  }
  rank.worker_end = std::move(*notes);
  rank.answer = std::move(*answer);
  rank.copies = kept_.take();
  const StartedChild child =
      start_process(start, rank, in->read.get(), out->write.get(), err->write.get());
  const std::int64_t copy_step = newest_step_of(rank.copies);
  if (child.pid < 0) {
    kept_.add(std::move(rank.copies), places());
    return cannot_start(start.rank, child.failure.exit_status, child.failure.text);
  }
  if (in->write.valid()) {
    set_nonblocking(in->write.get());
    input_ = std::move(in->write);
  }
  set_nonblocking(out->read.get());
  set_nonblocking(err->read.get());
  streams_.push_back({start.rank, STDOUT_FILENO, std::move(out->read)});
  streams_.push_back({start.rank, STDERR_FILENO, std::move(err->read)});
  rank.pid = child.pid;
  running_.push_back(std::move(rank));
  send_(encode(StartedMessage{start.rank, child.pid, copy_step}));
}

std::vector<PassedDescriptor> LocalRanks::descriptors_of(const Running& rank) const {
  return {{"RONDE_SECRET_FD", secret_.get()},
          {kExitLogVariable, exit_log_.reading()},
          {elastic::kNotesVariable, rank.worker_end.get()},
          {elastic::kCopyVariables[0], rank.copies[0].get()},
          {elastic::kCopyVariables[1], rank.copies[1].get()},
          {"RONDE_CALL_FD", call_.call()},
          {"RONDE_ANSWER_FD", rank.answer.get()}};
}

StartedChild LocalRanks::start_process(const RankStart& start, const Running& rank, int input,
                                       int output, int error) const {
  ChildSpec spec{.command = job_.command,
                 .environment = start.environment,
                 .descriptors = descriptors_of(rank),
                 .cpus = cpus_for(rank.place, places(), nodes_),
                 .death_signal = SIGKILL,
                 .input = input,
                 .output = output,
                 .error = error};
  if (!server_.name().empty()) {
    spec.environment.push_back(fmt::format(
        "{}={}", kPassedVariable, describe_passed(server_.name(), rank.rank, spec.descriptors)));
  }
  return start_child(spec);
}

/// The descriptor that a process of a rank asks for. The agent keeps it.
Result<int> LocalRanks::find_descriptor(const PassedRequest& request, pid_t pid) {
  const auto rank = std::ranges::find(running_, request.rank, &Running::rank);
  if (rank == running_.end()) {
    return Status(Code::kUnavailable, fmt::format("rank {} has ended", request.rank));
  }
  if (pid > 0 && pid != rank->pid) rank->wrapped.insert(pid);
  const std::vector<PassedDescriptor> all = descriptors_of(*rank);
  const auto found = std::ranges::find(all, request.variable, &PassedDescriptor::variable);
  if (found != all.end() && found->fd >= 0) return found->fd;
  return Status(Code::kUnavailable, "another process of this worker uses it already");
}

void LocalRanks::signal(const SignalMessage& message) {
  for (const Running& rank : running_) {
    if (message.rank != SignalMessage::kAllRanks && message.rank != rank.rank) continue;
    ::kill(-rank.pid, message.signal);
  }
}

void LocalRanks::print_if_failed(int rank, const Status& status) const {
  if (status.ok()) return;
  fmt::print(stderr, "ronde run: {}: worker {}: {}\n", host_name(), rank + 1, status.message());
}

void LocalRanks::deliver(NoteMessage note) {
  const auto rank = std::ranges::find(running_, note.rank, &Running::rank);
  if (rank == running_.end()) return;
  print_if_failed(note.rank, rank->notes.send(std::move(note.bytes)));
}

void LocalRanks::take_input(std::string_view bytes) {
  waiting_input_.push(bytes);
  input_ends_ = input_ends_ || bytes.empty();
  if (input_ends_ && waiting_input_.empty()) input_.reset();
}

/// A rank that does not read its input any more loses the rest.
void LocalRanks::write_input() {
  const bool taken = waiting_input_.write_some(input_.get());
  if (!taken || (input_ends_ && waiting_input_.empty())) input_.reset();
}

void LocalRanks::close_notes() {
  for (Running& rank : running_) rank.notes.close();
}

void LocalRanks::watch(PollSet& set, bool output) {
  streams_.remove_if([](const Stream& stream) { return !stream.fd.valid(); });
  for (Running& rank : running_) {
    set.add(rank.notes.fd(), POLLIN, [this, &rank] { read_notes(rank); });
    set.add(rank.notes.wants_write() ? rank.notes.fd() : -1, POLLOUT,
            [this, &rank] { print_if_failed(rank.rank, rank.notes.write()); });
  }
  server_.watch(set, find_);
  set.add(waiting_input_.empty() ? -1 : input_.get(), POLLOUT, [this] { write_input(); });
  if (!output) return;
  for (Stream& stream : streams_) {
    set.add(stream.fd.get(), POLLIN, [this, &stream] { read_stream(stream); });
  }
}

void LocalRanks::read_notes(Running& rank) {
  while (auto note = rank.notes.next()) {
    rank.worker_end.reset();
    const auto type = elastic::note_type(note->bytes);
    if (type.ok() && *type == elastic::NoteType::kCopy) {
      keep_copy(rank, std::move(*note));
    } else {
      send_(encode(NoteMessage{rank.rank, std::move(note->bytes)}));
    }
  }
}

void LocalRanks::keep_copy(Running& rank, FileMessage note) const {
  const auto content = elastic::decode_note<elastic::CopyNote>(note.bytes);
  if (content.ok() && content->copy < rank.copies.size() && note.file.valid()) {
    rank.copies.at(content->copy) = std::move(note.file);
  } else {
    print_if_failed(rank.rank, {Code::kInvalidArgument, "a copy without a memory file"});
  }
}

/// A worker that has failed leaves its copies to the next one. There are never more than slots.
std::int64_t LocalRanks::keep_copies_of(Running& rank, int wait_status) {
  return wait_status == 0 ? kNoCopies : kept_.add(std::move(rank.copies), places());
}

void LocalRanks::read_stream(Stream& stream) {
  OutputMessage message{stream.rank, stream.number, {}};
  const ReadState state = read_some(stream.fd.get(), message.bytes);
  if (state == ReadState::kData) send_(encode(message));
  if (state == ReadState::kEnd) stream.fd.reset();
}

void LocalRanks::reap(const std::function<void(pid_t pid, int wait_status)>& on_other) {
  int wait_status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    const auto rank = std::ranges::find(running_, pid, &Running::pid);
    if (rank == running_.end()) {
      on_other(pid, wait_status);
      continue;
    }
    report_end(*rank, wait_status);
    running_.erase(rank);
  }
}

void LocalRanks::suspect(const SuspectMessage& message) {
  const auto rank = std::ranges::find(running_, message.rank, &Running::rank);
  if (rank != running_.end()) liveness_.suspect(rank->pid, now());
}

void LocalRanks::report_ending(TimePoint time) {
  for (const auto& [pid, wait_status] : liveness_.gone(time)) {
    const auto rank = std::ranges::find(running_, pid, &Running::pid);
    if (rank == running_.end()) continue;
    report_end(*rank, wait_status);
    running_.erase(rank);
  }
}

void LocalRanks::report_frozen(TimePoint time) {
  std::vector<pid_t> pids;
  for (const Running& rank : running_) pids.push_back(rank.pid);
  for (const pid_t pid : liveness_.frozen(pids, time)) {
    const auto rank = std::ranges::find(running_, pid, &Running::pid);
    send_(encode(FrozenMessage{rank->rank, job_.freeze_seconds}));
  }
}

/// The ranks of all hosts can read how this one ended. Its last notes, output and answer go first.
void LocalRanks::report_end(Running& rank, int wait_status) {
  read_notes(rank);
  const std::int64_t copy_step = keep_copies_of(rank, wait_status);
  drain(rank.rank);
  send_answer(rank.answer.get(), [&](std::string piece) {
    send_(encode(AnswerMessage{rank.rank, std::move(piece)}));
  });
  const std::string how = describe_wait_status(wait_status);
  publish({rank.pid, host_name(), how});
  for (const pid_t pid : rank.wrapped) {
    publish({pid, host_name(), fmt::format("was run by pid {}, which {}", rank.pid, how)});
  }
  send_(encode(ExitedMessage{rank.rank, rank.pid, wait_status, joins_.joined(), copy_step}));
}

void LocalRanks::publish(const ProcessExit& ended) {
  exit_log_.add(ended);
  send_(encode(ended));
}

/// Passes on what a rank that has ended left in its pipes; a process of its own that lives on may
/// write more later.
void LocalRanks::drain(int rank) {
  constexpr std::size_t kMostPipeBytes = std::size_t{1} << 20;
  for (const Stream& stream : streams_) {
    if (stream.rank != rank) continue;
    OutputMessage message{rank, stream.number, {}};
    while (message.bytes.size() < kMostPipeBytes &&
           read_some(stream.fd.get(), message.bytes) == ReadState::kData) {
    }
    if (!message.bytes.empty()) send_(encode(message));
  }
}

std::int64_t newest_step_of(const CopyFiles& files) {
  return std::max(step_of(files[0]), step_of(files[1]));
}

std::int64_t KeptCopies::add(CopyFiles files, int most) {
  const std::int64_t step = newest_step_of(files);
  if (step == kNoCopies) return step;
  kept_.push_back(std::move(files));
  if (std::cmp_greater(kept_.size(), most)) {
    kept_.erase(std::ranges::min_element(kept_, {}, newest_step_of));
  }
  return step;
}

CopyFiles KeptCopies::take() {
  const auto newest = std::ranges::max_element(kept_, {}, newest_step_of);
  if (newest == kept_.end()) return {};
  CopyFiles taken = std::move(*newest);
  kept_.erase(newest);
  return taken;
}

}  // namespace ronde
