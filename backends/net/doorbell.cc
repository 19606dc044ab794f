#include "backends/net/doorbell.h"

namespace ronde::net {

std::uint32_t Doorbell::prepare(Sleeper who) noexcept {
  prepared_ = true;
  const std::uint32_t ticket = word(who).ticket();
  words_.attention.store(1 + static_cast<std::uint32_t>(who), std::memory_order_seq_cst);
  return ticket;
}

void Doorbell::ring() noexcept {
  std::uint32_t named = words_.attention.load(std::memory_order_seq_cst);
  if (named == 0 || named > 2) return;
  // Whoever takes the word does the waking; the others spare the system call.
  if (words_.attention.compare_exchange_strong(named, 0, std::memory_order_seq_cst)) {
    wake(static_cast<Sleeper>(named - 1));
  }
}

}  // namespace ronde::net
