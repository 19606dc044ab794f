// The parts of a peer's frame that the engine reads: header, failure, exchanged value, tagged
// message.
#include <array>

#include "core/engine/frames/frame.h"
#include "core/engine/peers/key_value_exchange.h"
#include "core/engine/peers/messages.h"
#include "tests/core/engine/fake_channel.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ronde::FuzzInput input(data, size);
  ronde::test::FakeChannel channel(0, 3);
  ronde::AbortToken abort;
  ronde::FrameSender sender(channel, abort);
  ronde::KeyValueExchange exchange(sender);
  exchange.begin({1, 0}, {0, 1, 2}, "mine");
  ronde::OperationRing records;
  ronde::Meter meter;
  ronde::DrivingRole role(channel);
  ronde::TaskQueue tasks(role, abort, records, meter);
  ronde::Messages messages(tasks, sender);
  std::array<std::byte, 64> memory{};
  ronde::Message message;
  for (int from = 1; from < 3; ++from) (void)messages.recv(from, 7, memory, &message);
  (void)tasks.run();
  while (!input.empty()) {
    const int from = 1 + input.byte() % 2;
    const auto frame = input.piece();
    (void)ronde::read_header(frame);
    ronde::Status failure;
    (void)ronde::read_failure(frame, failure).ok();
    (void)exchange.on_frame(from, 1, frame).ok();
    (void)messages.on_frame(from, frame).ok();
    channel.sent.clear();
  }
  messages.fail_all({ronde::Code::kAborted, "end"});
  return 0;
}
