#include "program.h"

#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace ronde::tensorflow {
namespace {

struct Programs {
  std::mutex mutex;
  std::map<std::pair<std::int64_t, std::int32_t>, std::string> texts;
};

/// Never destroyed: kernels may run while the process exits.
Programs& programs() {
  static auto* kept = new Programs();
  return *kept;
}

}  // namespace

std::string program_text(std::int64_t number, std::int32_t set) {
  if (number <= 0) return {};
  const std::lock_guard<std::mutex> lock(programs().mutex);
  const auto found = programs().texts.find({number, set});
  return found == programs().texts.end() ? std::string() : found->second;
}

}  // namespace ronde::tensorflow

/// Called by ronde.tensorflow whenever it has traced another operation of a function.
extern "C" __attribute__((visibility("default"))) void ronde_tensorflow_tell_program(
    std::int64_t number, std::int32_t set, const char* text) {
  const std::lock_guard<std::mutex> lock(ronde::tensorflow::programs().mutex);
  ronde::tensorflow::programs().texts[{number, set}] = text;
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
