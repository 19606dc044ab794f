// The ranks that an agent has started on its host, and the copies of an elastic job's state that it
// keeps for workers to come.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/launch/carried_call.h"
#include "bindings/cli/launch/event_loop.h"
#include "bindings/cli/launch/messages.h"
#include "bindings/cli/launch/process.h"
#include "bindings/cli/launch/rank_sockets.h"
#include "bindings/exit_log/exit_log.h"
#include "bindings/exit_log/join_socket.h"
#include "core/base/os/file_descriptor.h"

namespace ronde {

/// The memory files of a worker's last two copies of its state: bindings/elastic/commit_store.h.
using CopyFiles = std::array<FileDescriptor, 2>;

inline constexpr std::int64_t kNoCopies = -1;

/// The step of the newest whole copy; kNoCopies without one.
std::int64_t newest_step_of(const CopyFiles& files);

/// Copies of workers that have failed. Threads: one.
class KeptCopies {
 public:
  /// Keeps `files` among the newest `most`, if one is whole. Returns newest_step_of().
  std::int64_t add(CopyFiles files, int most);
  /// The copies of the newest step; empty without any.
  [[nodiscard]] CopyFiles take();

 private:
  std::vector<CopyFiles> kept_;
};

/// Starts ranks and reports what they write and how they end. Threads: one.
class LocalRanks {
 public:
  /// `send`: takes frames for the launcher.
  explicit LocalRanks(std::function<void(const std::string& frame)> send)
      : send_(std::move(send)) {}

  /// Takes over the job's command, environment and directory, and starts the ranks of the message.
  /// Problems of the directory are printed.
  void set_up(StartMessage message);
  void start(const RankStart& start);
  /// Sends a signal to the process group of a rank, or of all.
  void signal(const SignalMessage& message);
  void deliver(NoteMessage note);
  /// Keeps a piece of the call that all ranks get.
  void take_call(std::string_view bytes) { call_.take(bytes); }
  /// Hands standard input to the rank that gets it. Empty: its end.
  void take_input(std::string_view bytes);
  /// The workers find that the launcher is gone.
  void close_notes();
  /// Notes that a rank of another host has ended.
  void log_exit(const ProcessExit& ended) { exit_log_.add(ended); }

  /// Watches the ranks' notes, and their output where it is wanted.
  void watch(PollSet& set, bool output);
  /// Reports the ranks that have ended; call it after SIGCHLD. Other children go to `on_other`.
  void reap(const std::function<void(pid_t pid, int wait_status)>& on_other);
  /// Others have lost this rank.
  void suspect(const SuspectMessage& message);
  /// Reports suspects that are ending, though they are still to be reaped.
  void report_ending(TimePoint time);
  /// Reports workers that have been stopped for too long; call it at deadline().
  void report_frozen(TimePoint time);
  [[nodiscard]] TimePoint deadline() const noexcept { return liveness_.deadline(now()); }

  [[nodiscard]] bool is_set_up() const noexcept { return is_set_up_; }
  [[nodiscard]] bool elastic() const noexcept { return job_.elastic; }
  [[nodiscard]] bool empty() const noexcept { return running_.empty(); }
  /// Forgets the ranks that run.
  void clear() noexcept { running_.clear(); }

 private:
  /// One end of a rank's output.
  struct Stream {
    int rank = 0;
    int number = 1;
    FileDescriptor fd;
  };
  struct Running {
    int rank = 0;
    int place = 0;  ///< Among the ranks of this host; chooses its cores.
    pid_t pid = -1;
    NoteSocket notes;
    FileDescriptor worker_end;  ///< Of the notes, until the worker uses it.
    CopyFiles copies;
    FileDescriptor answer;      ///< To the call; none without one.
    std::set<pid_t> wrapped{};  ///< Other processes of the rank, which asked for descriptors.
  };

  Status keep_secret();
  [[nodiscard]] int free_place() const;
  [[nodiscard]] int places() const noexcept {
    return job_.elastic ? job_.slots : static_cast<int>(job_.ranks.size());
  }
  [[nodiscard]] std::vector<PassedDescriptor> descriptors_of(const Running& rank) const;
  Result<int> find_descriptor(const PassedRequest& request, pid_t pid);
  StartedChild start_process(const RankStart& start, const Running& rank, int input, int output,
                             int error) const;
  void cannot_start(int rank, int exit_status, const std::string& why);
  void read_stream(Stream& stream);
  void read_notes(Running& rank);
  void keep_copy(Running& rank, FileMessage note) const;
  [[nodiscard]] std::int64_t keep_copies_of(Running& rank, int wait_status);
  void drain(int rank);
  void report_end(Running& rank, int wait_status);
  void publish(const ProcessExit& ended);
  void write_input();
  void print_if_failed(int rank, const Status& status) const;

  const std::function<void(const std::string& frame)> send_;
  StartMessage job_;
  CarriedCall call_;
  std::vector<cpu_set_t> nodes_;
  ExitLog exit_log_;
  JoinSocket joins_;
  FileDescriptor secret_;
  const DescriptorServer::Find find_ = [this](const PassedRequest& request, pid_t pid) {
    return find_descriptor(request, pid);
  };
  DescriptorServer server_;
  std::list<Stream> streams_;
  FileDescriptor input_;  ///< Of the rank that gets standard input.
  OutQueue waiting_input_;
  bool input_ends_ = false;
  std::list<Running> running_;
  KeptCopies kept_;  ///< Of workers that have failed.
  ProcessLiveness liveness_;
  bool is_set_up_ = false;
};

}  // namespace ronde
