// What ranks of one host tell each other of other hosts, by two channels of one process.
#include "backends/net/channel/host_channel.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/base/mutex.h"

namespace ronde::net {
namespace {

constexpr int kBeyond = 7;  // a rank of another host

/// What one rank hears, as lines.
class Listener {
 public:
  Listener(std::unique_ptr<HostSegment> segment, int rank) : channel(std::move(segment), rank) {
    REQUIRE(channel.hold().ok());
  }

  void begin() {
    WatchHooks hooks;
    hooks.on_loss = [this](int rank, Presence, bool) { note("watch: lost " + name(rank)); };
    hooks.on_cut = [this](int rank) { note("watch: cut off from " + name(rank)); };
    channel.begin_watching(std::move(hooks));
  }

  /// Waits until the watch thread has said so much.
  std::vector<std::string> watched(std::size_t lines) {
    const MutexLock lock(mutex_);
    while (watched_.size() < lines) said_.wait(mutex_);
    return watched_;
  }

  std::vector<std::string> polled() {
    std::vector<std::string> lines;
    channel.poll({[](int, std::span<const std::byte>) {},
                  [&](int rank, Presence) { lines.push_back("gone " + name(rank)); },
                  [&](int rank) { lines.push_back("cut off from " + name(rank)); }});
    return lines;
  }

 private:
  static std::string name(int rank) { return std::to_string(rank); }
  void note(std::string line) {
    const MutexLock lock(mutex_);
    watched_.push_back(std::move(line));
    said_.notify_all();
  }

  Mutex mutex_;
  CondVar said_;
  std::vector<std::string> watched_ RONDE_GUARDED_BY(mutex_);

 public:
  HostChannel channel;
};

std::unique_ptr<HostSegment> taken(Result<std::unique_ptr<HostSegment>> made) {
  REQUIRE(made.ok());
  return std::move(*made);
}

struct Pair {
  Pair() : Pair(taken(HostSegment::create(2))) {}
  explicit Pair(std::unique_ptr<HostSegment> made)
      : other(taken(HostSegment::attach(FileDescriptor(::dup(made->fd())), 2)), 1),
        one(std::move(made), 0) {
    one.begin();
    other.begin();
  }
  Listener other;
  Listener one;
};

using Lines = std::vector<std::string>;

TEST_CASE("a limit of file sizes is an error rather than the end of the process") {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
    const bool limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
    const auto refused = HostSegment::create(2);
    const bool told = refused.status().message().find("ulimit -f") != std::string::npos;
    _exit(limited && !refused.ok() && told ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a cut that one rank found is the cause also for those that only see it leave") {
  Pair pair;
  pair.one.channel.tell_cut(kBeyond);
  pair.one.channel.close();
  CHECK(pair.other.polled() == Lines{"cut off from 7", "gone 0"});
  CHECK(pair.other.watched(1) == Lines{"watch: cut off from 7"});
}

TEST_CASE("a cut is told once, and the first is kept") {
  Pair pair;
  pair.one.channel.tell_cut(kBeyond);
  CHECK(pair.other.polled() == Lines{"cut off from 7"});
  pair.one.channel.tell_cut(kBeyond + 1);
  CHECK(pair.other.polled().empty());
  CHECK(pair.one.polled().empty());
}

}  // namespace
}  // namespace ronde::net
