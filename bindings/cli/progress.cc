#include "bindings/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace ronde {
namespace {

void show(std::uint64_t done, std::uint64_t total) {
  const std::uint64_t percent = total == 0 ? 100 : 100 * done / total;
  fmt::print(stderr, "\rReading {} MB of traces: {} %{}", total >> 20, percent,
             done >= total ? "\n" : "");
}

}  // namespace

std::function<void(std::uint64_t done, std::uint64_t total)> shown_progress() {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return show;
}

}  // namespace ronde
