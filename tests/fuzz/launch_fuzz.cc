// What launcher and agents read from each other, and host lists.
#include "bindings/cli/launch/frame.h"
#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/bytes.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ronde::FuzzInput input(data, size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)ronde::parse_hosts(std::string(text)).ok();
  ronde::AgentFrameReader reader;
  while (!input.empty()) {
    reader.feed(ronde::as_text(input.piece()));
    for (;;) {
      const auto frame = reader.next();
      if (!frame.ok()) return 0;
      if (!frame->has_value()) break;
      const std::string& payload = (*frame)->payload;
      (void)ronde::decode_probe(payload).ok();
      (void)ronde::decode_probed(payload).ok();
      (void)ronde::decode_start(payload).ok();
      (void)ronde::decode_output(payload).ok();
      (void)ronde::decode_rank(payload).ok();
      (void)ronde::decode_cannot_start(payload).ok();
      (void)ronde::decode_signal(payload).ok();
    }
  }
  return 0;
}
