// An agent's part in a test of which hosts reach each other, beside a job that runs.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "bindings/cli/launch/messages.h"
#include "bindings/cli/launch/poll_set.h"
#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// Listens for the other hosts, and connects to them. Nothing is sent. Threads: one.
class ReachTest {
 public:
  static constexpr std::chrono::seconds kLimit{5};  ///< For a connection.

  /// `send`: takes the answer as a frame.
  explicit ReachTest(std::function<void(const std::string& frame)> send) : send_(std::move(send)) {}

  /// From now on others can connect, until two limits have passed. Returns the port. Errors:
  /// kUnavailable.
  Result<int> listen(const std::string& address);
  /// Tries all of them at once. Answers when the last one is known. Ends an earlier try.
  void connect(const ReachMessage& question);

  void watch(PollSet& set);
  [[nodiscard]] TimePoint deadline() const noexcept;
  /// Call it at deadline().
  void on_time(TimePoint time);

 private:
  struct Attempt {
    std::string place;
    FileDescriptor socket;
  };
  void begin(const std::string& place);
  void end(Attempt& attempt);
  void miss(const std::string& place, const std::string& why);
  void answer_if_done();

  const std::function<void(const std::string& frame)> send_;
  FileDescriptor listener_;
  TimePoint listens_until_ = kForever;
  std::list<Attempt> attempts_;
  TimePoint answer_at_ = kForever;  // the latest; kForever: nothing was asked
  ReachedMessage answer_;
};

}  // namespace ronde
