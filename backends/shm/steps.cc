#include "backends/shm/steps.h"

namespace ronde::shm {

Steps::Steps(const Layout& layout, std::byte* base, int ranks, int rank, SpinLimit spin)
    : layout_(layout),
      base_(base),
      rank_(rank),
      spin_(spin),
      seen_(static_cast<std::size_t>(ranks)) {
  for (int r = 0; r < ranks; ++r) flags_.push_back(&layout_.flag(base_, r));
}

Status Steps::begin(const Stop& stop) {
  if (stop.aborted()) return stop.status();
  return wait_all(step_ - 2, stop);
}

void Steps::set_note(std::uint64_t value) noexcept {
  flags_[static_cast<std::size_t>(rank_)]->note[step_ % kBanks].store(value,
                                                                      std::memory_order_relaxed);
}

std::uint64_t Steps::note(int rank, Step step) const noexcept {
  return flags_[static_cast<std::size_t>(rank)]->note[step % kBanks].load(
      std::memory_order_relaxed);
}

void Steps::arrive() noexcept {
  Flag& mine = *flags_[static_cast<std::size_t>(rank_)];
  ++step_;
  seen_[static_cast<std::size_t>(rank_)] = step_;
  // Sequentially consistent on both sides: either we see the sleeper or it sees the new value.
  mine.arrived.store(step_, std::memory_order_seq_cst);
  if (mine.sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(mine.arrived);
}

bool Steps::has_arrived(std::size_t rank, Step step) noexcept {
  const auto reached = [&] { return static_cast<std::int32_t>(seen_[rank] - (step + 1)) >= 0; };
  if (reached()) return true;
  seen_[rank] = flags_[rank]->arrived.load(std::memory_order_acquire);
  return reached();
}

Status Steps::sleep_until_arrived(std::size_t rank, Step step, const Stop& stop) {
  Flag& flag = *flags_[rank];
  while (!has_arrived(rank, step)) {
    if (stop.poll()) return stop.status();
    flag.sleepers.fetch_add(1, std::memory_order_seq_cst);
    seen_[rank] = flag.arrived.load(std::memory_order_seq_cst);
    if (!has_arrived(rank, step)) futex_wait(flag.arrived, seen_[rank], kSleepSlice);
    flag.sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  return {};
}

Status Steps::wait(int rank, Step step, const Stop& stop) {
  const auto r = static_cast<std::size_t>(rank);
  if (spin_until([&] { return has_arrived(r, step); }, spin_, stop)) return {};
  return sleep_until_arrived(r, step, stop);
}

Status Steps::wait_all(Step step, const Stop& stop) {
  for (int r = 0; r < ranks(); ++r) RONDE_RETURN_IF_ERROR(wait(r, step, stop));
  return {};
}

}  // namespace ronde::shm
