// Each thing that makes a rank say what it is doing, with ranks that are processes.
#include "bindings/runtime/diagnosis/service.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "bindings/runtime/groups/group_factory.h"
#include "core/base/log.h"
#include "tests/backends/net/processes.h"
#include "tests/bindings/runtime/sums.h"
#include "tests/bindings/runtime/wait_for.h"

namespace ronde {
namespace {

using diagnosis::dump_path;
using net::all_good;
using net::rank_config;
using net::run_ranks;
using net::unique_job_id;

/// A folder of its own for the dumps, gone with it.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ronde-dump-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Of a rank that writes dumps, and nothing else.
Config quiet_config(const std::string& job, int rank, int size, const std::string& dump_dir) {
  Config config = rank_config(job, rank, size);
  config.dump_dir = dump_dir;
  config.log_level = LogLevel::kOff;
  return config;
}

std::vector<Dump> dumps_of(const std::string& folder, const std::string& job, int rank) {
  std::ifstream file(dump_path(folder, job, rank));
  std::stringstream text;
  text << file.rdbuf();
  auto dumps = read_dumps(text.str());
  return dumps.ok() ? std::move(*dumps) : std::vector<Dump>();
}

/// The first operation that is pending in the dump, or one without a name.
DumpOperation pending_in(const Dump& dump) {
  for (const DumpOperation& operation : dump.operations) {
    if (!operation.done()) return operation;
  }
  return {};
}

/// True if a rank waits in the seventh call of the group of both ranks.
bool waits_in_call_7(const Dump& dump) {
  const DumpOperation operation = pending_in(dump);
  return operation.name == "group of ranks 0,1" && operation.kind == "barrier" &&
         operation.call == 7 && operation.set < 0;
}

}  // namespace

TEST_CASE("Diagnosis: the ranks that survive a death write what they were doing") {
  const Folder folder;
  const std::string job = unique_job_id();
  const auto codes = run_ranks(3, [&](int rank) {
    Config config = quiet_config(job, rank, 3, folder.path());
    auto runtime = Runtime::create(config);
    RONDE_CHILD_REQUIRE(runtime.ok());
    std::vector<float> values(10, 1.0F);
    RONDE_CHILD_REQUIRE(sum(**runtime, kGlobalSet, "first", values).ok());
    if (rank == 2) ::raise(SIGKILL);
    RONDE_CHILD_REQUIRE(sum(**runtime, kGlobalSet, "second", values).code() == Code::kRankFailure);
    return 0;
  });
  CHECK(codes == std::vector<int>{0, 0, -SIGKILL});
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    const auto dumps = dumps_of(folder.path(), job, rank);
    REQUIRE(dumps.size() == 1);
    CHECK(dumps[0].reason == "failure");
    CHECK(dumps[0].rank == rank);
    CHECK(dumps[0].failure.find("rank 2") != std::string::npos);
    REQUIRE_FALSE(dumps[0].operations.empty());
    CHECK(dumps[0].operations[0].name == "first");
    CHECK(dumps[0].operations[0].status == "ok");
    CHECK(dumps[0].operations[0].agreed_ns >= dumps[0].operations[0].submitted_ns);
    CHECK(dumps[0].operations[0].done_ns >= dumps[0].operations[0].started_ns);
    CHECK_FALSE(dumps[0].threads.empty());
  }
}

TEST_CASE("Diagnosis: a dump tells in which call of a raw group a rank waits") {
  const Folder folder;
  const std::string job = unique_job_id();
  const auto codes = run_ranks(2, [&](int rank) {
    Config config = quiet_config(job, rank, 2, folder.path());
    config.dump_signal = "USR2";
    auto runtime = Runtime::create(config);
    RONDE_CHILD_REQUIRE(runtime.ok());
    const auto group = (*runtime)->groups().open({0, 1});
    RONDE_CHILD_REQUIRE(group.ok());
    for (int i = 0; i < 6; ++i) RONDE_CHILD_REQUIRE((*group)->run(Bundle{}).ok());
    std::size_t asked = 0;
    const auto shows = [&] {  // asks again once it has answered
      const auto dumps = dumps_of(folder.path(), job, 0);
      if (!dumps.empty() && waits_in_call_7(dumps.back())) return true;
      if (dumps.size() == asked) {
        ++asked;
        ::kill((*runtime)->topology().peers[0].pid, SIGUSR2);
      }
      return false;
    };
    RONDE_CHILD_REQUIRE(rank == 0 || wait_for(shows));
    RONDE_CHILD_REQUIRE((*group)->run(Bundle{}).ok());
    return 0;
  });
  CHECK(codes == all_good(2));
}

TEST_CASE("Diagnosis: a stall and a signal make a rank write, with the stacks of who waits") {
  const Folder folder;
  const std::string job = unique_job_id();
  const auto codes = run_ranks(2, [&](int rank) {
    Config config = quiet_config(job, rank, 2, folder.path());
    config.dump_signal = "USR2";
    config.stall_warning = std::chrono::seconds(1);
    auto runtime = Runtime::create(config);
    RONDE_CHILD_REQUIRE(runtime.ok());
    std::vector<float> values(10, 1.0F);
    if (rank == 1) {
      RONDE_CHILD_REQUIRE(wait_for([&] { return dumps_of(folder.path(), job, 0).size() >= 2; }));
      return sum(**runtime, kGlobalSet, "late", values).ok() ? 0 : 1;
    }
    const OperationPtr late =
        (*runtime)->operations().submit(kGlobalSet, sum_of("late", values)).value();
    WaitOptions options;
    bool sent = false;
    options.interrupt = [&]() -> Status {
      if (!sent && !dumps_of(folder.path(), job, 0).empty()) {
        sent = true;
        ::kill(::getpid(), SIGUSR2);
      }
      return {};
    };
    return (*runtime)->operations().wait(late, options).ok() ? 0 : 1;
  });
  CHECK(codes == all_good(2));
  const auto dumps = dumps_of(folder.path(), job, 0);
  REQUIRE(dumps.size() >= 2);
  CHECK(dumps[0].reason == "stall");
  CHECK(pending_in(dumps[0]).name == "late");
  CHECK(pending_in(dumps[0]).agreed_ns == 0);
  CHECK(dumps[1].reason == "signal");
  CHECK(pending_in(dumps[1]).name == "late");
  REQUIRE_FALSE(dumps[1].threads.empty());
  bool waits = false;
  for (const std::string& frame : dumps[1].threads[0].frames) {
    waits |= frame.find("Engine::wait") != std::string::npos ||
             frame.find("Operations::wait") != std::string::npos;
  }
  CHECK(waits);
}

TEST_CASE("Diagnosis: operations that stall one after the other are told of once in an interval") {
  const Folder folder;
  const std::string job = unique_job_id();
  diagnosis::Waker waker;
  const OperationRing records;
  const diagnosis::WaitingCallers callers;
  diagnosis::ServiceOptions options;
  options.head.job = job;
  options.head.size = 1;
  options.head.pid = ::getpid();
  options.folder = folder.path();
  options.abort = std::make_shared<AbortToken>();
  options.records = &records;
  options.callers = &callers;
  options.waker = &waker;
  options.stall.warning = std::chrono::minutes(10);
  const diagnosis::Service service(std::move(options));
  waker.wake(diagnosis::Reason::kStall);
  REQUIRE(wait_for([&] { return dumps_of(folder.path(), job, 0).size() == 1; }));
  waker.wake(diagnosis::Reason::kStall);
  waker.wake(diagnosis::Reason::kSignal);  // told after the stall, if that were told of again
  REQUIRE(wait_for([&] { return dumps_of(folder.path(), job, 0).size() >= 2; }));
  const auto dumps = dumps_of(folder.path(), job, 0);
  REQUIRE(dumps.size() == 2);
  CHECK(dumps[0].reason == "stall");
  CHECK(dumps[1].reason == "signal");
}

TEST_CASE("Diagnosis: without a folder a failure is a line in the log") {
  const std::string job = unique_job_id();
  const auto codes = run_ranks(2, [&](int rank) {
    auto runtime = Runtime::create(rank_config(job, rank, 2));
    RONDE_CHILD_REQUIRE(runtime.ok());
    std::string lines;
    set_log(LogLevel::kWarning, [&](LogLevel, std::string_view line) { lines += line; });
    std::vector<float> values(10, 1.0F);
    std::vector<float> other(10, 1.0F);
    OperationPtr alone;
    if (rank == 0)
      alone = (*runtime)->operations().submit(kGlobalSet, sum_of("alone", values)).value();
    RONDE_CHILD_REQUIRE(sum(**runtime, kGlobalSet, "first", other).ok());
    if (rank == 1) ::raise(SIGKILL);
    RONDE_CHILD_REQUIRE(!(*runtime)->operations().wait(alone, {}).ok());
    runtime->reset();
    set_log(LogLevel::kWarning, nullptr);
    RONDE_CHILD_REQUIRE(lines.find("just failed: \"alone\"") != std::string::npos);
    RONDE_CHILD_REQUIRE(lines.find("last finished: allreduce \"first\"") != std::string::npos);
    return 0;
  });
  CHECK(codes == std::vector<int>{0, -SIGKILL});
}

TEST_CASE("Diagnosis: ranks that wait for one that has left say so, and what they waited for") {
  const Folder folder;
  const std::string job = unique_job_id();
  const auto codes = run_ranks(2, [&](int rank) {
    Config config = quiet_config(job, rank, 2, folder.path() + "/made/for/it");
    auto runtime = Runtime::create(config);
    RONDE_CHILD_REQUIRE(runtime.ok());
    if (rank == 1) return 0;
    std::vector<float> values(10, 1.0F);
    for (const std::string name : {"awaited", "again", "and again"}) {
      const Status status = sum(**runtime, kGlobalSet, name, values);
      RONDE_CHILD_REQUIRE(status.code() == Code::kRankFailure);
      RONDE_CHILD_REQUIRE(wait_for([&] { return !dumps_of(config.dump_dir, job, 0).empty(); }));
    }
    return 0;
  });
  CHECK(codes == all_good(2));
  const auto dumps = dumps_of(folder.path() + "/made/for/it", job, 0);
  REQUIRE(dumps.size() == 1);
  CHECK(dumps[0].reason == "failure");
  CHECK(dumps[0].failed_rank == 1);
  CHECK(dumps[0].failure.find("rank 1 has left the job") == 0);
  REQUIRE(dumps[0].operations.size() == 1);
  CHECK(dumps[0].operations[0].name == "awaited");
  CHECK(dumps_of(folder.path() + "/made/for/it", job, 1).empty());
}

TEST_CASE("Diagnosis: a folder for dumps that cannot be made is an error when the job starts") {
  const Folder folder;
  const std::string file = folder.path() + "/file";
  std::ofstream(file) << "x";
  Config config = rank_config(unique_job_id(), 0, 1);
  config.dump_dir = file;
  const Status status = Runtime::create(config).status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message().find("RONDE_DUMP_DIR=" + file + " is no folder") == 0);
}

/// UBSan's check of a virtual call opens a pipe to look at the object, which takes descriptors.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kNeedsDescriptors = true;
#else
constexpr bool kNeedsDescriptors = false;
#endif

TEST_CASE("Diagnosis: a process without descriptors left can end all the same" *
          doctest::skip(kNeedsDescriptors)) {
  const auto codes = run_ranks(1, [&](int) {
    std::vector<FileDescriptor> all;
    while (all.empty() || all.back().valid()) all.emplace_back(::open("/dev/null", O_RDONLY));
    diagnosis::Waker waker;
    RONDE_CHILD_REQUIRE(waker.fd() < 0);
    const OperationRing records;
    const diagnosis::WaitingCallers callers;
    diagnosis::ServiceOptions options;
    options.abort = std::make_shared<AbortToken>();
    options.records = &records;
    options.callers = &callers;
    options.waker = &waker;
    const diagnosis::Service service(std::move(options));
    return 0;
  });
  CHECK(codes == all_good(1));
}

TEST_CASE("Diagnosis: the user's own handler of the dump signal stays, and ours goes") {
  const auto codes = run_ranks(1, [&](int) {
    Config config = rank_config(unique_job_id(), 0, 1);
    config.dump_signal = "USR1";
    struct sigaction action {};
    RONDE_CHILD_REQUIRE(Runtime::create(config).ok());  // and ends at once
    ::sigaction(SIGUSR1, nullptr, &action);
    RONDE_CHILD_REQUIRE(action.sa_handler == SIG_DFL);
    ::signal(SIGUSR1, SIG_IGN);
    auto runtime = Runtime::create(config);
    ::sigaction(SIGUSR1, nullptr, &action);
    RONDE_CHILD_REQUIRE(action.sa_handler == SIG_IGN);
    return 0;
  });
  CHECK(codes == all_good(1));
}

}  // namespace ronde
