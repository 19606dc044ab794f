#include "backends/shm/memory/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace ronde::shm {
namespace {

template <std::size_t N>
void put_text(std::string_view text, char (&out)[N]) noexcept {
  const std::size_t size = std::min(text.size(), N - 1);
  std::copy_n(text.data(), size, out);
  out[size] = '\0';
}

template <std::size_t N>
std::string text_of(const char (&text)[N]) {
  return {text, ::strnlen(text, N)};
}

}  // namespace

Steps::Steps(const Layout& layout, std::byte* base, int ranks, int rank, SpinLimit spin)
    : layout_(layout),
      base_(base),
      rank_(rank),
      awaiter_(spin),
      header_(layout_.header(base)),
      seen_(static_cast<std::size_t>(ranks)) {
  for (int r = 0; r < ranks; ++r) flags_.push_back(&layout_.flag(base_, r));
}

Status Steps::begin(const Stop& stop) {
  if (stop.aborted()) return stop.status();
  const bool late = static_cast<std::int32_t>(late_until_ - step_) > 0;
  return wait_all(step_ - (late ? 1 : 2), stop);
}

void Steps::set_note(std::uint64_t value) noexcept {
  flags_[static_cast<std::size_t>(rank_)]->note[step_ % kSlots].store(value,
                                                                      std::memory_order_relaxed);
}

std::uint64_t Steps::note(int rank, Step step) const noexcept {
  return flags_[static_cast<std::size_t>(rank)]->note[step % kSlots].load(
      std::memory_order_relaxed);
}

void Steps::arrive() noexcept {
  Flag& mine = *flags_[static_cast<std::size_t>(rank_)];
  const Step arrived = step_++;
  streaming_fence();  // slots may have been written past the caches
  seen_[static_cast<std::size_t>(rank_)] = step_;
  // Sequentially consistent on both sides: either we see the sleeper or it sees the new value.
  mine.arrived.store(step_, std::memory_order_seq_cst);
  if (mine.sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(mine.arrived);
  if (header_.sleepers.load(std::memory_order_seq_cst) == 0 || !all_have_arrived(arrived)) return;
  header_.completions.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(header_.completions);
}

bool Steps::has_arrived(std::size_t rank, Step step) noexcept {
  const auto reached = [&] { return static_cast<std::int32_t>(seen_[rank] - (step + 1)) >= 0; };
  if (reached()) return true;
  seen_[rank] = flags_[rank]->arrived.load(std::memory_order_seq_cst);
  return reached();
}

bool Steps::all_have_arrived(Step step) noexcept {
  for (std::size_t r = 0; r < seen_.size(); ++r) {
    if (!has_arrived(r, step)) return false;
  }
  return true;
}

/// The rank left after its last arrival: that is looked at last.
bool Steps::never_arrives(std::size_t rank, Step step) noexcept {
  return flags_[rank]->gone.load(std::memory_order_seq_cst) != 0 && !has_arrived(rank, step);
}

void Steps::leave(const Status& why) noexcept {
  Flag& mine = *flags_[static_cast<std::size_t>(rank_)];
  if (mine.gone.load(std::memory_order_relaxed) != 0) return;
  Departure& departure = layout_.departure(base_, rank_);
  departure.failed_rank = -1;
  departure.tensor = why.tensor() ? static_cast<std::int64_t>(*why.tensor()) : -1;
  departure.code = static_cast<std::uint8_t>(why.code());
  put_text(why.message(), departure.message);
  if (const auto& failed = why.failed_rank()) {
    departure.failed_rank = failed->rank;
    departure.pid = failed->pid;
    put_text(failed->host, departure.host);
  }
  mine.gone.store(1, std::memory_order_seq_cst);
  futex_wake_all(mine.arrived);
  header_.completions.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(header_.completions);
}

/// Another rank's word about who failed may come later than the end of its steps.
Status Steps::error_of(int gone) const {
  const Departure& departure = layout_.departure(base_, gone);
  const std::string message = text_of(departure.message);
  if (departure.failed_rank >= 0) {
    return Status(static_cast<Code>(departure.code), message)
        .about(
            {.rank = departure.failed_rank, .host = text_of(departure.host), .pid = departure.pid});
  }
  if (static_cast<Code>(departure.code) == Code::kCorrupted) {
    const bool known = departure.tensor >= 0;
    return Status(Code::kCorrupted, message)
        .in_tensor(known ? std::optional(static_cast<std::size_t>(departure.tensor))
                         : std::nullopt);
  }
  return {
      Code::kAborted,
      fmt::format("rank {} of this host's group has left it after a failure: {}", gone, message)};
}

template <typename Ready, typename Never>
Status Steps::await(Ready ready, Never never, std::atomic<std::uint32_t>& word,
                    std::atomic<std::uint32_t>& sleepers, const Stop& stop) {
  if (awaiter_.becomes(ready, stop)) return {};
  while (!ready()) {
    if (stop.poll()) return stop.status();
    if (const int gone = never(); gone >= 0) return error_of(gone);
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t before = word.load(std::memory_order_seq_cst);
    if (!ready()) futex_wait_for(word, before, kSleepSlice);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  return {};
}

Status Steps::wait(int rank, Step step, const Stop& stop) {
  const auto r = static_cast<std::size_t>(rank);
  Flag& flag = *flags_[r];
  return await([&] { return has_arrived(r, step); },
               [&] { return never_arrives(r, step) ? rank : -1; }, flag.arrived, flag.sleepers,
               stop);
}

Status Steps::wait_all(Step step, const Stop& stop) {
  const auto never = [&] {
    for (std::size_t r = 0; r < seen_.size(); ++r) {
      if (never_arrives(r, step)) return static_cast<int>(r);
    }
    return -1;
  };
  return await([&] { return all_have_arrived(step); }, never, header_.completions, header_.sleepers,
               stop);
}

}  // namespace ronde::shm
