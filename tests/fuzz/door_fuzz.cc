// Names of sockets: anybody on the host may listen by a name that looks like a rank's door.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "bindings/runtime/diagnosis/door.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ronde::diagnosis::DoorName;
  const auto door = DoorName::parse({reinterpret_cast<const char*>(data), size});
  if (!door) return 0;
  const auto again = DoorName::parse(door->text());
  if (!again || again->text() != door->text()) std::abort();
  return 0;
}
