// What ranks of one host tell each other of other hosts, by two channels of one process.
#include "backends/net/control/host_channel.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/base/mutex.h"

namespace ronde::net {
namespace {

constexpr int kJobRanks = 9;
constexpr LostRank kBeyond{7, Loss::kUnreachable, 0};  // a rank of another host

/// What one rank hears, as lines.
class Listener {
 public:
  Listener(std::unique_ptr<HostSegment> segment, int rank) : channel(std::move(segment), rank) {
    REQUIRE(channel.watch().start().ok());
  }

  void begin() {
    WatchHooks hooks;
    hooks.on_lost = [this](const LostRank& lost) { note("watch: " + describe(lost)); };
    channel.watch().begin_watching({}, std::move(hooks));
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
                  [&](const LostRank& lost) { lines.push_back(describe(lost)); }});
    return lines;
  }

 private:
  static std::string describe(const LostRank& lost) {
    const std::string rank = std::to_string(lost.rank);
    if (lost.how == Loss::kLeft && lost.reporter == lost.rank) return rank + " left";
    return std::to_string(lost.reporter) + " lost " + rank;
  }
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

std::unique_ptr<HostSegment> mapped(const FileDescriptor& memory) {
  auto made = HostSegment::map(memory, {0, 1}, kJobRanks);
  REQUIRE(made.ok());
  return std::move(*made);
}

struct Pair {
  Pair() : Pair(HostSegment::make_memory(2, kJobRanks).value()) {}
  explicit Pair(const FileDescriptor& memory) : other(mapped(memory), 1), one(mapped(memory), 0) {
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
    const auto refused = HostSegment::make_memory(2, kJobRanks);
    const bool told = refused.status().message().find("ulimit -f") != std::string::npos;
    _exit(limited && !refused.ok() && told ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a loss that one rank found is the cause also for those that only see it leave") {
  Pair pair;
  pair.one.channel.watch().report(kBeyond);
  pair.one.channel.close();
  CHECK(pair.other.polled() == Lines{"0 lost 7", "0 left"});
  CHECK(pair.other.watched(2) == Lines{"watch: 0 lost 7", "watch: 0 left"});
}

TEST_CASE("the loss of a rank is told once, to all, and the first is kept") {
  Pair pair;
  pair.one.channel.watch().report(kBeyond);
  pair.other.channel.watch().report({kBeyond.rank, Loss::kDied, 1});
  CHECK(pair.other.polled() == Lines{"0 lost 7"});
  CHECK(pair.one.polled() == Lines{"0 lost 7"});
  pair.one.channel.watch().report({8, Loss::kLeft, 1});
  CHECK(pair.other.polled() == Lines{"1 lost 8"});
  CHECK(pair.other.polled().empty());
}

}  // namespace
}  // namespace ronde::net
