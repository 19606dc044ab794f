// Trace files that were cut off, edited, or written by somebody else.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "timeline/reading/trace_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int fd = ::memfd_create("trace", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, data, size, 0) < 0) return 0;
  auto reader = ronde::TraceReader::open(path);
  if (!reader.ok()) return 0;
  for (;;) {
    const auto event = reader->next();
    if (!event.ok() || !event->has_value()) return 0;
  }
}
