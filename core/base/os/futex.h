// The kernel's futex calls. Callers avoid them where nobody sleeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.h"

namespace ronde {

/// A word that threads sleep on.
using FutexWord = std::atomic<std::uint32_t>;
static_assert(FutexWord::is_always_lock_free && sizeof(FutexWord) == 4);

/// Who may sleep on a word: threads of this process, or also those of other processes.
enum class FutexScope : std::uint8_t { kProcess, kShared };

/// Sleeps while `word` holds `expected`, until a wake-up or the deadline. May return early.
/// Keeps errno.
void futex_wait(const FutexWord& word, std::uint32_t expected, TimePoint deadline,
                FutexScope scope = FutexScope::kShared) noexcept;

/// Sleeps as futex_wait() for at most `limit`, on a shared word. Reads no clock.
void futex_wait_for(const FutexWord& word, std::uint32_t expected, Duration limit) noexcept;

/// Wakes all that sleep on `word`. Keeps errno. Threads: any, also signal handlers.
void futex_wake_all(const FutexWord& word, FutexScope scope = FutexScope::kShared) noexcept;

}  // namespace ronde
