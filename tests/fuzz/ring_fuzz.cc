// Shared memory that a peer of this host may have filled with anything.
#include <array>

#include "backends/net/control/ring.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ronde::FuzzInput input(data, size);
  ronde::net::RingHeader header{};
  std::array<std::byte, 1024> memory{};
  ronde::net::RingReceiver receiver(header, memory);
  std::size_t sum = 0;
  while (!input.empty()) {
    const std::uint64_t step = input.byte() | (std::uint64_t{input.byte()} << 8);
    const std::size_t at = (std::size_t{input.byte()} * 4) % memory.size();
    const auto bytes = input.piece();
    std::copy_n(bytes.begin(), std::min(bytes.size(), memory.size() - at), memory.begin() + at);
    header.tail += step;
    bool room = false;
    const auto on_frame = [&](std::span<const std::byte> frame) {
      for (const std::byte b : frame) sum += std::to_integer<std::size_t>(b);
    };
    if (!receiver.drain(on_frame, room).ok()) return 0;
  }
  return sum == ~std::size_t{0} ? 1 : 0;
}
