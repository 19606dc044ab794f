// Frames of the negotiation, sent by any member to any other while operations are in flight.
#include "tests/core/protocol/harness.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ronde::FuzzInput input(data, size);
  constexpr int kSize = 5;
  ronde::TestJob job(kSize, 2);
  for (int rank = 0; rank < kSize; ++rank) {
    for (const char* name : {"w", "v", ""}) {
      if (rank != 3) (void)job.at(rank).submit(ronde::allreduce(name), 1, {}).ok();
    }
  }
  while (!input.empty()) {
    const int choice = input.byte();
    const int to = choice % kSize;
    const int from = (choice / kSize) % kSize;
    (void)job.at(to).on_frame(from, input.piece(), {}).ok();
    if (choice >= 128) job.deliver();
    for (int rank = 0; rank < kSize; ++rank) job.take(rank);
  }
  return 0;
}
