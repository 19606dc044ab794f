// A worker of an elastic job, for tests. Usage: job_worker FOLDER. It prints a line for each epoch
// and commits steps until there is FOLDER/finish; each step adds the number of ranks' ones.
#include <ronde/elastic.h>
#include <ronde/ronde.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

class Worker {
 public:
  explicit Worker(std::string folder) : folder_(std::move(folder)), job_(ronde::init()) {
    state_.add("total", ronde::tensor(total_));
    state_.add("steps", steps_);
    state_.add("own", own_, ronde::elastic::Owner::kRank);
    state_.on_reset([this] { ++resets_; });
    state_.on_orphan([](const ronde::elastic::Orphan& orphan) {
      std::printf("orphan own %d\n", orphan.values<int>("own").at(0));
      std::fflush(stdout);
    });
    if (const char* const every = std::getenv("JOB_REDUNDANCY")) {  // NOLINT(concurrency-mt-unsafe)
      state_.set_redundancy(std::atoi(every));
    }
    if (const char* const path = std::getenv("JOB_CHECKPOINT")) {  // NOLINT(concurrency-mt-unsafe)
      state_.checkpoint(path, {.every = 10});
    }
  }

  int run() {
    const bool finished = ronde::elastic::run(state_, [this] { train(); });
    print(finished ? "finished" : "left");
    return total_[0] == static_cast<double>(steps_) ? 0 : 9;
  }

 private:
  void print(const char* what) {
    std::printf("%s rank %d of %d own %d resets %d steps %d pid=%d\n", what, job_.rank(),
                job_.size(), own_, resets_, static_cast<int>(steps_), ::getpid());
    std::fflush(stdout);
  }

  /// All ranks stop at the same step.
  void train() {
    print("epoch");
    for (;;) {
      last_[0] = std::filesystem::exists(folder_ + "/finish") ? 1 : 0;
      one_[0] = 1;
      job_.allreduce("one", ronde::tensor(one_));
      job_.allreduce("last", ronde::tensor(last_), {.op = ronde::ReduceOp::kMin});
      total_[0] += one_[0];
      ++steps_;
      state_.commit();
      if (last_[0] == 1) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const std::string folder_;
  std::vector<double> total_ = {0};
  std::int64_t steps_ = 0;
  int resets_ = 0;
  std::vector<double> one_ = {1};
  std::vector<std::int32_t> last_ = {0};
  ronde::Job job_;
  int own_ = ::getpid();
  ronde::elastic::State state_{job_};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    return Worker(argv[1]).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
