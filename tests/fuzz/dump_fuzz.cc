// Dumps: `ronde doctor --job` reads what other processes send it, and reports read files.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "timeline/dump.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto dumps = ronde::read_dumps({reinterpret_cast<const char*>(data), size});
  if (!dumps.ok()) return 0;
  for (const ronde::Dump& dump : *dumps) {
    (void)ronde::summarize_dump(dump);
    const auto again = ronde::read_dumps(ronde::format_dump(dump));
    if (!again.ok() || again->size() != 1) std::abort();
    if (again->front().operations.size() != dump.operations.size()) std::abort();
  }
  return 0;
}
