// A worker of an elastic job for tests of the launcher: it speaks the notes, and computes nothing.
// Usage: elastic_worker FOLDER. It writes its pid to FOLDER/pid.W, and looks at the pids of its
// epoch's workers to learn of deaths. FOLDER/finish ends the job, FOLDER/frozen.W stops it from
// noticing anything. SIGTERM: it leaves.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/elastic/notes.h"

namespace ronde::elastic {
namespace {

volatile sig_atomic_t asked_to_leave = 0;

const char* variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

/// A process that init has not reaped yet has ended, too.
bool has_ended(pid_t pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string number, name, state;
  stat >> number >> name >> state;
  return state.empty() || state == "Z" || state == "X";
}

class TestWorker {
 public:
  explicit TestWorker(std::filesystem::path folder) : folder_(std::move(folder)) {}
  int run();

 private:
  void print(const std::string& text) {
    fmt::print("{}\n", text);
    (void)std::fflush(stdout);
  }
  template <typename Note>
  void send(const Note& note) {
    const std::string bytes = encode_note(note);
    (void)::send(notes_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void ready(std::vector<WorkerId> suspects, const std::string& why) {
    send(ReadyNote{epoch_.epoch, epoch_.epoch > 0, true, false, std::move(suspects), why});
    member_ = false;
  }
  [[nodiscard]] bool has(const std::string& name) const {
    return std::filesystem::exists(folder_ / name);
  }
  bool take_note();
  void on_epoch(const std::string& bytes);
  void look_at_others();
  void act();

  const std::filesystem::path folder_;
  const int notes_ = std::atoi(variable(kNotesVariable));
  const WorkerId self_ = std::strtoull(variable(kWorkerVariable), nullptr, 10);
  EpochNote epoch_;
  bool member_ = false;
  bool left_ = false;
  int exit_status_ = -1;
};

void TestWorker::on_epoch(const std::string& bytes) {
  epoch_ = decode_note<EpochNote>(bytes).value();
  member_ = true;
  print(fmt::format("epoch {} rank {} of {} job {} secret {} meets <{}> tree <{}> at {} us",
                    epoch_.epoch, epoch_.rank, epoch_.workers.size(), epoch_.job_id,
                    epoch_.secret.size(), epoch_.rendezvous, epoch_.rendezvous_tree,
                    to_ns(now()) / 1000));
  send(HoldsNote{});
}

/// False once the launcher is gone.
bool TestWorker::take_note() {
  std::string bytes(kMaxNoteBytes, '\0');
  const ssize_t size = ::recv(notes_, bytes.data(), bytes.size(), 0);
  if (size <= 0) return size < 0 && errno == EINTR;
  bytes.resize(static_cast<std::size_t>(size));
  const NoteType type = note_type(bytes).value();
  if (type == NoteType::kEpoch) on_epoch(bytes);
  if (type == NoteType::kChanged) {
    const auto change = decode_note<ChangedNote>(bytes).value();
    print(fmt::format("changed {} of epoch {}", static_cast<int>(change.change), change.epoch));
    if (member_ && change.epoch == epoch_.epoch) ready({}, "");
  }
  if (type == NoteType::kDismissed) {
    const auto dismissed = decode_note<DismissedNote>(bytes).value();
    print(fmt::format("dismissed: {}", dismissed.why));
    exit_status_ = dismissed.failed ? 1 : 0;
  }
  return true;
}

void TestWorker::look_at_others() {
  for (const EpochWorker& other : epoch_.workers) {
    pid_t pid = 0;
    std::ifstream(folder_ / fmt::format("pid.{}", other.worker)) >> pid;
    if (pid == 0 || !has_ended(pid)) continue;
    return ready({other.worker}, fmt::format("lost worker {}", other.worker));
  }
}

void TestWorker::act() {
  if (asked_to_leave != 0 && !left_) {
    left_ = true;
    send(LeavingNote{"SIGTERM"});
  }
  if (!member_ || has(fmt::format("frozen.{}", self_))) return;
  if (has("finish")) {
    send(FinishedNote{epoch_.epoch});
    exit_status_ = 0;
    return;
  }
  look_at_others();
}

int TestWorker::run() {
  ::signal(SIGTERM, [](int) { asked_to_leave = 1; });
  std::ofstream(folder_ / fmt::format("pid.{}", self_)) << ::getpid() << std::flush;
  print(fmt::format("worker {} pid={} elastic {}{} rank <{}>", self_, ::getpid(),
                    variable("RONDE_ELASTIC"), variable("HOROVOD_ELASTIC"), variable("RANK")));
  send(ReadyNote{});
  while (exit_status_ < 0) {
    pollfd polled{notes_, POLLIN, 0};
    if (::poll(&polled, 1, 1) > 0 && !take_note()) {
      std::ofstream(folder_ / fmt::format("saved.{}", self_)) << "saved";
      return 3;
    }
    act();
  }
  return exit_status_;
}

}  // namespace
}  // namespace ronde::elastic

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return ronde::elastic::TestWorker(argv[1]).run();
}
