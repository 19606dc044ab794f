#include "job.h"

#include <atomic>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

namespace ronde::tensorflow {
namespace {

std::atomic<const ronde_api*> table{nullptr};

/// TensorFlow's code for ours: the exception in Python is of both kinds.
absl::StatusCode code_of(std::int32_t code) {
  switch (code) {
    case RONDE_INVALID_ARGUMENT:
    case RONDE_DUPLICATE_NAME:
    case RONDE_NONFINITE:
      return absl::StatusCode::kInvalidArgument;
    case RONDE_MISMATCH:
    case RONDE_NOT_INITIALIZED:
    case RONDE_VERSION_MISMATCH:
      return absl::StatusCode::kFailedPrecondition;
    case RONDE_RANK_FAILURE:
    case RONDE_UNAVAILABLE:
      return absl::StatusCode::kUnavailable;
    case RONDE_STALLED:
    case RONDE_TIMEOUT:
      return absl::StatusCode::kDeadlineExceeded;
    case RONDE_UNSUPPORTED:
      return absl::StatusCode::kUnimplemented;
    case RONDE_RESOURCE_EXHAUSTED:
      return absl::StatusCode::kResourceExhausted;
    case RONDE_CORRUPTED:
      return absl::StatusCode::kDataLoss;
    case RONDE_INTERNAL:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kAborted;
  }
}

struct Programs {
  std::mutex mutex;
  std::map<std::pair<std::int64_t, std::int32_t>, std::string> texts;
};

/// Never destroyed: kernels may run while the process exits.
Programs& programs() {
  static auto* kept = new Programs();
  return *kept;
}

/// The submissions of this process's graphs.
struct Graphs {
  std::mutex mutex;
  std::unordered_set<std::string> names;
  bool all_known = true;  // the names of all of them
};

/// Never destroyed, as programs().
Graphs& graphs() {
  static auto* kept = new Graphs();
  return *kept;
}

}  // namespace

void ReleaseJob::operator()(ronde_job* job) const { api()->release(job); }

const ronde_api* api() { return table.load(std::memory_order_acquire); }

JobPtr current_job() { return JobPtr(api() == nullptr ? nullptr : api()->current()); }

absl::Status not_initialized() {
  ronde_error error{RONDE_NOT_INITIALIZED, -1, 0, "",
                    "ronde has not been initialized; call init() first"};
  return to_status(error);
}

absl::Status to_status(const ronde_error& error) {
  const std::string text = error.text;
  const std::string host = error.host[0] == '\0' ? "-" : error.host;
  // A payload would not survive the way out of a graph.
  return absl::Status(code_of(error.code), "[ronde.error " + std::to_string(error.code) + " " +
                                               std::to_string(error.rank) + " " +
                                               std::to_string(error.pid) + " " + host + " " +
                                               std::to_string(text.size()) + "] " + text);
}

std::string program_text(std::int64_t number, std::int32_t set) {
  if (number <= 0) return {};
  const std::lock_guard<std::mutex> lock(programs().mutex);
  const auto found = programs().texts.find({number, set});
  return found == programs().texts.end() ? std::string() : found->second;
}

void note_graph(const std::vector<std::string>& names, std::int64_t program, std::int32_t set) {
  if (program == kEagerProgram) return;
  const bool known = !program_text(program, set).empty();
  const std::lock_guard<std::mutex> lock(graphs().mutex);
  graphs().names.insert(names.begin(), names.end());
  graphs().all_known = graphs().all_known && known;
}

std::int32_t may_submit(const char* name) {
  const std::string plain(name, std::strcspn(name, "@"));  // without the number of an iteration
  const std::lock_guard<std::mutex> lock(graphs().mutex);
  return !graphs().all_known || graphs().names.count(name) > 0 || graphs().names.count(plain) > 0
             ? 1
             : 0;
}

}  // namespace ronde::tensorflow

/// Called once by ronde.tensorflow after loading this library.
extern "C" __attribute__((visibility("default"))) void ronde_tensorflow_bind(
    const ronde_api* given) {
  ronde::tensorflow::table.store(given, std::memory_order_release);
}

/// Called by ronde.tensorflow whenever it has traced another operation of a function.
extern "C" __attribute__((visibility("default"))) void ronde_tensorflow_tell_program(
    std::int64_t number, std::int32_t set, const char* text) {
  const std::lock_guard<std::mutex> lock(ronde::tensorflow::programs().mutex);
  ronde::tensorflow::programs().texts[{number, set}] = text;
}

/// Called by ronde.tensorflow for each name that a function it has traced submits.
extern "C" __attribute__((visibility("default"))) void ronde_tensorflow_tell_name(
    const char* name) {
  const std::lock_guard<std::mutex> lock(ronde::tensorflow::graphs().mutex);
  ronde::tensorflow::graphs().names.insert(name);
}

/// Called when a traced function has gone. Kernels that are left belong to no program then, which
/// fits any. Gives how many texts it had.
extern "C" __attribute__((visibility("default"))) std::int32_t ronde_tensorflow_forget_program(
    std::int64_t number) {
  const std::lock_guard<std::mutex> lock(ronde::tensorflow::programs().mutex);
  auto& texts = ronde::tensorflow::programs().texts;
  const auto first = texts.lower_bound({number, std::numeric_limits<std::int32_t>::min()});
  const auto last = texts.upper_bound({number, std::numeric_limits<std::int32_t>::max()});
  const auto count = std::distance(first, last);
  texts.erase(first, last);
  return static_cast<std::int32_t>(count);
}
