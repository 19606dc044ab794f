// News of the connection manager's thread for a transport.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "backends/net/link/connection_manager.h"
#include "core/base/mutex.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::net {

/// Holds new connections and failed dials until the transport takes them. Threads: any.
class Mailbox {
 public:
  struct Arrival {
    std::size_t card = 0;
    Link link;
  };
  struct Failure {
    std::size_t card = 0;
    int rank = -1;  ///< Of the job.
    Status why;
  };
  struct Mail {
    std::vector<Arrival> links;
    std::vector<Failure> failures;
  };

  /// `wake` becomes readable when something is there. Others may notify it too.
  explicit Mailbox(FileDescriptor wake) noexcept : wake_(std::move(wake)) {}

  void put(Arrival arrival) RONDE_EXCLUDES(mutex_);
  void put(Failure failure) RONDE_EXCLUDES(mutex_);

  /// For poll().
  [[nodiscard]] int wake() const noexcept { return wake_.get(); }
  /// Takes all. Clears the wake-up where something was there: look at the other reasons for it
  /// afterwards.
  Mail take() RONDE_EXCLUDES(mutex_);
  /// In a forked child: leaves the connections as they are.
  void forget() RONDE_NO_THREAD_SAFETY_ANALYSIS {
    (void)std::make_unique<Mail>(std::move(mail_)).release();
  }

 private:
  const FileDescriptor wake_;
  std::atomic<bool> filled_{false};
  Mutex mutex_;
  Mail mail_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde::net
