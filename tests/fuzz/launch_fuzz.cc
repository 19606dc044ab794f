// Messages between launcher and agents, and host lists.
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
      (void)ronde::decode<ronde::ProbeMessage>(payload).ok();
      (void)ronde::decode<ronde::ProbedMessage>(payload).ok();
      (void)ronde::decode<ronde::StartMessage>(payload).ok();
      (void)ronde::decode<ronde::OutputMessage>(payload).ok();
      (void)ronde::decode<ronde::RankMessage>(payload).ok();
      (void)ronde::decode<ronde::CannotStartMessage>(payload).ok();
      (void)ronde::decode<ronde::SignalMessage>(payload).ok();
      (void)ronde::decode<ronde::ProcessExit>(payload).ok();
      (void)ronde::decode<ronde::ListenMessage>(payload).ok();
      (void)ronde::decode<ronde::ListeningMessage>(payload).ok();
      (void)ronde::decode<ronde::ReachMessage>(payload).ok();
      (void)ronde::decode<ronde::ReachedMessage>(payload).ok();
    }
  }
  return 0;
}
