// A worker of an elastic job that has a process set, for tests. Usage: sets_worker FOLDER. It
// prints a line for each epoch, and trains until there is FOLDER/finish.
#include <ronde/elastic.h>
#include <ronde/ronde.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace {

class Worker {
 public:
  /// The set is made of the first two workers; those that join find it.
  explicit Worker(std::string folder) : folder_(std::move(folder)), job_(ronde::init()) {
    state_.add("pair", pair_);
  }

  void run() {
    (void)ronde::elastic::run(state_, [this] { train(); });
  }

 private:
  void train() {
    if (pair_ == 0) {
      pair_ = job_.add_process_set({0, 1}).id;
      state_.commit();
    }
    print(use_pair());
    for (;;) {
      last_[0] = std::filesystem::exists(folder_ + "/finish") ? 1 : 0;
      job_.allreduce("last", ronde::tensor(last_), {.op = ronde::ReduceOp::kMin});
      state_.commit();
      if (last_[0] == 1) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// The sum of ones in the set, or what was wrong.
  std::string use_pair() {
    one_[0] = 1;
    try {
      job_.allreduce("pair", ronde::tensor(one_), {.op = ronde::ReduceOp::kSum, .set = {pair_}});
      return "sum " + std::to_string(one_[0]);
    } catch (const ronde::InvalidArgument& error) {
      return error.what();
    }
  }

  void print(const std::string& text) {
    std::printf("epoch %d of %d: %s pid=%d\n", ++epochs_, job_.size(), text.c_str(), ::getpid());
    std::fflush(stdout);
  }

  const std::string folder_;
  int epochs_ = 0;  // of this worker
  std::int32_t pair_ = 0;
  std::vector<int> one_ = {1};
  std::vector<int> last_ = {0};
  ronde::Job job_;
  ronde::elastic::State state_{job_};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    Worker(argv[1]).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
