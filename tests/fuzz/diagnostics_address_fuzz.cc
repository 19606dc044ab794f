// Names of sockets: anybody on the host may listen by a name that looks like a rank's.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "bindings/runtime/diagnosis/diagnostics_address.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ronde::diagnosis::DiagnosticsAddress;
  const auto address = DiagnosticsAddress::parse({reinterpret_cast<const char*>(data), size});
  if (!address) return 0;
  const auto again = DiagnosticsAddress::parse(address->text());
  if (!again || again->text() != address->text()) std::abort();
  return 0;
}
