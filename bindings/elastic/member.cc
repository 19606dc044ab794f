#include "bindings/elastic/member.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <memory>

#include "bindings/descriptors/passed.h"
#include "bindings/runtime/groups/runtime_state.h"
#include "bindings/runtime/worker_history.h"
#include "core/base/log.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/os/memory_file.h"
#include "core/base/settings/setting_kinds.h"

namespace ronde::elastic {
namespace {

constexpr std::chrono::milliseconds kCheckEvery{50};  // WaitOptions::interrupt
constexpr std::size_t kMostReasonBytes = 4096;

Status gone() { return {Code::kUnavailable, "the launcher of this elastic job is gone"}; }

int socket_option(int fd, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

bool is_note_socket(int fd) {
  return socket_option(fd, SO_DOMAIN) == AF_UNIX && socket_option(fd, SO_TYPE) == SOCK_SEQPACKET;
}

template <typename Integer>
Result<Integer> read_number(const char* variable, const std::string& text) {
  Integer value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end) return value;
  return Status(Code::kInvalidArgument,
                fmt::format("{}=\"{}\" is not valid; allowed: whole numbers", variable, text));
}

/// Takes the descriptor only if it is a copy's: this process may have closed it, and opened others.
void adopt_inherited(CommitStore& store, int copy, int file) {
  FileDescriptor own(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (own.valid() && store.adopt(copy, std::move(own)).ok()) ::close(file);
}

/// Leaves the copy out where the agent does not give it, and files that are no copies.
void take_copy(CommitStore& store, int copy) {
  const char* const variable = kCopyVariables.at(static_cast<std::size_t>(copy));
  const auto file = parse_integer(process_environment()(variable).value_or(""), 0,
                                  std::numeric_limits<int>::max());
  if (!file) return;
  auto passed = take_passed(variable, static_cast<int>(*file));
  if (!passed.ok()) return log_line(LogLevel::kWarning, passed.status().message());
  if (*passed) return (void)store.adopt(copy, std::move(**passed));
  adopt_inherited(store, copy, static_cast<int>(*file));
}

/// The process's Member, and the mark that tells it from forked children.
struct Adopted {
  std::unique_ptr<Member> member;
  ForkMark mark;
};

Result<std::unique_ptr<Member>> adopt() {
  const Environment environment = process_environment();
  const std::string fd_text = environment(kNotesVariable).value_or("");
  if (fd_text.empty()) return std::unique_ptr<Member>();
  RONDE_ASSIGN_OR_RETURN(const int fd, read_number<int>(kNotesVariable, fd_text));
  RONDE_ASSIGN_OR_RETURN(auto passed, take_passed(kNotesVariable, fd));
  if (!passed && !is_note_socket(fd)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}={} is not the launcher's socket: a program between the launcher "
                              "and this process has closed the descriptor",
                              kNotesVariable, fd));
  }
  RONDE_ASSIGN_OR_RETURN(
      const auto worker,
      read_number<WorkerId>(kWorkerVariable, environment(kWorkerVariable).value_or("0")));
  CommitStore copies;
  for (const int copy : {0, 1}) take_copy(copies, copy);
  return std::make_unique<Member>(passed ? std::move(*passed) : FileDescriptor(fd), worker,
                                  std::move(copies));
}

Result<Adopted*> adopt_once() {
  RONDE_ASSIGN_OR_RETURN(auto member, adopt());
  return new Adopted{std::move(member), {}};  // never ended: threads may use it at exit
}

}  // namespace

Member::Member(FileDescriptor socket, WorkerId worker, CommitStore copies)
    : socket_(std::move(socket)),
      worker_(worker),
      has_copies_(!copies.steps().empty()),
      copies_(std::move(copies)) {
  ::fcntl(socket_.get(), F_SETFD, FD_CLOEXEC);
}

Result<Member*> Member::of_process() {
  static const Result<Adopted*> kAdopted = adopt_once();
  if (!kAdopted.ok()) return kAdopted.status();
  const Adopted& adopted = *kAdopted.value();
  return adopted.mark.forked() ? nullptr : adopted.member.get();
}

EpochId Member::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

Result<Answer> Member::next_epoch(const WaitOptions& options) {
  WorkerHistory& history = WorkerHistory::of_worker(static_cast<int>(worker_));
  history.on_ready(!why_.empty());
  RONDE_RETURN_IF_ERROR(begin_wait());
  for (;;) {
    RONDE_ASSIGN_OR_RETURN(std::optional<Answer> answer, take_answer());
    if (answer) {
      history.on_placed();
      began_ = false;
      suspects_.clear();
      why_.clear();
      if (const auto* place = std::get_if<EpochNote>(&*answer)) place_ = *place;
      return std::move(*answer);
    }
    if (options.interrupt) RONDE_RETURN_IF_ERROR(options.interrupt());
    if (now() >= options.deadline) {
      return Status(Code::kTimeout, "the launcher has not begun an epoch within the time limit");
    }
    wait_for_note(options.deadline);
  }
}

ReadyNote Member::ready() const {
  ReadyNote note;
  note.last_epoch = epoch();
  note.began = began_;
  note.holds_state = holds_state_;
  note.can_resume = has_copies_ || has_checkpoint_;
  note.suspects.assign(suspects_.begin(), suspects_.end());
  note.why = why_.substr(0, kMostReasonBytes);
  return note;
}

bool Member::state_is_held() const {
  return place_ && std::ranges::any_of(place_->workers, &EpochWorker::holds_state);
}

void Member::failed(const std::string& why, int rank) {
  if (why_.empty()) why_ = why;
  const auto place = static_cast<std::size_t>(rank);  // a negative one is too large
  if (place_ && place < place_->workers.size()) suspects_.insert(place_->workers[place].worker);
}

Status Member::hold_state() {
  return std::exchange(holds_state_, true) ? Status() : send(HoldsNote{});
}

Status Member::share(CommitStore& store) {
  return store.set_file_hook([this](int copy, int file) { return send_copy(copy, file); });
}

/// An answer that has come already was for an earlier call, which was interrupted.
Status Member::begin_wait() {
  {
    MutexLock lock(mutex_);
    const Status received = receive();
    if (answer_) return {};
    RONDE_RETURN_IF_ERROR(received);
  }
  return send(ready());
}

Result<std::optional<Answer>> Member::take_answer() {
  MutexLock lock(mutex_);
  if (!answer_) {
    const Status received = receive();
    if (!answer_ && !received.ok()) return received;
    if (!answer_) return std::optional<Answer>();
  }
  if (const auto* place = std::get_if<EpochNote>(&*answer_)) {
    epoch_ = place->epoch;
    job_id_ = place->job_id;
  }
  return std::exchange(answer_, std::nullopt);
}

/// Returns early on a signal.
void Member::wait_for_note(TimePoint deadline) const {
  const auto left = deadline == kForever
                        ? kCheckEvery
                        : std::chrono::ceil<std::chrono::milliseconds>(deadline - now());
  pollfd wanted{socket_.get(), POLLIN, 0};
  ::poll(&wanted, 1, static_cast<int>(std::clamp(left, {}, kCheckEvery).count()));
}

Result<ChangedNote> Member::changes() {
  MutexLock lock(mutex_);
  RONDE_RETURN_IF_ERROR(receive());
  return changed_.epoch == epoch_ ? changed_ : ChangedNote();
}

CancelSource Member::cancel_source(std::string job_id) {
  {
    MutexLock lock(mutex_);
    if (epoch_ == 0 || job_id != job_id_) return {};
  }
  return {socket_.get(), [this] { return check_epoch(); }};
}

Status Member::check_epoch() {
  MutexLock lock(mutex_);
  const Status received = receive();
  if (void_.epoch == epoch_) {
    return {Code::kAborted, fmt::format("epoch {} cannot begin: {}", epoch_, void_.why)};
  }
  return received;
}

Status Member::send_message(const std::string& message, int file) {
  MutexLock lock(mutex_);
  RONDE_RETURN_IF_ERROR(failure_);
  for (;;) {
    if (send_with_file(socket_.get(), message, file) >= 0) return {};
    if (errno == EPIPE || errno == ECONNRESET) return lose();
    if (errno != EINTR) return errno_status("cannot send a note to the launcher");
  }
}

/// Takes all notes that have come.
Status Member::receive() {
  for (;;) {
    RONDE_RETURN_IF_ERROR(failure_);
    const ssize_t bytes = ::recv(socket_.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (bytes > 0) {
      RONDE_RETURN_IF_ERROR(receive_note(static_cast<std::size_t>(bytes)));
    } else if (bytes < 0 && errno == EAGAIN) {
      return {};
    } else if (bytes == 0 || errno != EINTR) {
      return lose();
    }
  }
}

Status Member::receive_note(std::size_t bytes) {
  std::string message(std::min(bytes, kMaxNoteBytes), '\0');
  const ssize_t got = ::recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EINTR ? Status() : lose();
  if (Status status = take(message); !status.ok()) {
    failure_ = status.with_context("the launcher sent a note that cannot be read");
  }
  return failure_;
}

Status Member::take(const std::string& message) {
  RONDE_ASSIGN_OR_RETURN(const NoteType type, note_type(message));
  switch (type) {
    case NoteType::kEpoch: {
      RONDE_ASSIGN_OR_RETURN(EpochNote note, decode_note<EpochNote>(message));
      if (note.rank < 0 || static_cast<std::size_t>(note.rank) >= note.workers.size()) {
        return {Code::kInvalidArgument,
                fmt::format("rank {} of {} workers", note.rank, note.workers.size())};
      }
      answer_ = std::move(note);
      return {};
    }
    case NoteType::kChanged: {
      RONDE_ASSIGN_OR_RETURN(changed_, decode_note<ChangedNote>(message));
      return {};
    }
    case NoteType::kVoid: {
      RONDE_ASSIGN_OR_RETURN(void_, decode_note<VoidNote>(message));
      return {};
    }
    case NoteType::kDismissed: {
      RONDE_ASSIGN_OR_RETURN(answer_, decode_note<DismissedNote>(message));
      return {};
    }
    default:
      return {Code::kInvalidArgument, "its type is one that workers send"};
  }
}

Status Member::lose() {
  failure_ = gone();
  return failure_;
}

Result<Settings> Member::settings(const EpochNote& place) {
  RONDE_ASSIGN_OR_RETURN(FileDescriptor file, make_memory_text("ronde-secret", place.secret));
  MutexLock lock(mutex_);
  secret_ = std::move(file);
  return Settings{{"RONDE_RANK", fmt::to_string(place.rank)},
                  {"RONDE_SIZE", fmt::to_string(place.workers.size())},
                  {"RONDE_WORKER", fmt::to_string(worker_)},
                  {"RONDE_EPOCH", fmt::to_string(place.epoch)},
                  {"RONDE_JOB_ID", place.job_id},
                  {"RONDE_RENDEZVOUS", place.rendezvous},
                  {"RONDE_RENDEZVOUS_TREE", place.rendezvous_tree},
                  {"RONDE_SECRET_FD", fmt::to_string(secret_.get())}};
}

Result<Config> config_with(Config config, const Settings& settings) {
  for (const auto& [name, value] : settings) {
    RONDE_RETURN_IF_ERROR(set_setting(config, name, value));
  }
  return config;
}

}  // namespace ronde::elastic
