// Messages between launcher and agents, and host lists.
#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/bytes.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ronde::FuzzInput input(data, size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)ronde::parse_hosts(std::string(text)).ok();
  ronde::MessageReader reader;
  while (!input.empty()) {
    reader.feed(ronde::as_text(input.piece()));
    for (auto message = reader.next(); message.ok() && message->has_value();) {
      message = reader.next();
    }
  }
  return 0;
}
