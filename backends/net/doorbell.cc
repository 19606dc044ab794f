#include "backends/net/doorbell.h"

namespace ronde::net {

std::uint32_t Doorbell::prepare(Sleeper who) noexcept {
  const auto index = static_cast<std::size_t>(who);
  prepared_ = true;
  const std::uint32_t ticket = words_.words[index].load(std::memory_order_seq_cst);
  words_.attention.store(1 + static_cast<std::uint32_t>(who), std::memory_order_seq_cst);
  return ticket;
}

void Doorbell::wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept {
  const auto index = static_cast<std::size_t>(who);
  words_.sleepers[index].fetch_add(1, std::memory_order_seq_cst);
  if (words_.words[index].load(std::memory_order_seq_cst) == ticket) {
    futex_wait(words_.words[index], ticket, deadline);
  }
  words_.sleepers[index].fetch_sub(1, std::memory_order_relaxed);
}

void Doorbell::wake(Sleeper who) noexcept {
  const auto index = static_cast<std::size_t>(who);
  words_.words[index].fetch_add(1, std::memory_order_seq_cst);
  if (words_.sleepers[index].load(std::memory_order_seq_cst) != 0) {
    futex_wake_all(words_.words[index]);
  }
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
