// The kernel's futex calls on words that several processes share.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.h"

namespace ronde::net {

using FutexWord = std::atomic<std::uint32_t>;
static_assert(FutexWord::is_always_lock_free && sizeof(FutexWord) == 4);

/// Sleeps while `word` holds `expected`, until it is woken or the deadline passes. May return
/// early.
void futex_wait(FutexWord& word, std::uint32_t expected, TimePoint deadline) noexcept;

/// Wakes all that sleep on `word`. Safe in signal handlers.
void futex_wake_all(FutexWord& word) noexcept;

}  // namespace ronde::net
