// Ranks as threads, for tests: run_ranks() starts them, collects what they throw, and ends the
// program with a clear text when they hang.
#pragma once

#include <chrono>
#include <functional>

namespace ronde::test {

#if defined(__SANITIZE_THREAD__)
constexpr bool kUnderTsan = true;
#elif defined(__has_feature)
constexpr bool kUnderTsan = __has_feature(thread_sanitizer);
#else
constexpr bool kUnderTsan = false;
#endif

/// How often a test repeats what it does: a quarter of `wanted` under ThreadSanitizer, which makes
/// each round ten times as long and needs only one round to see a race.
constexpr int rounds(int wanted) { return kUnderTsan ? (wanted + 3) / 4 : wanted; }

/// Calls body(rank) in one thread for each of `ranks` ranks and returns when all have returned.
/// Doctest's checks may be used inside; a failed REQUIRE ends its rank alone, an exception is
/// reported as a failure that names the rank. When not all have returned after `limit`, the program
/// is aborted, naming those that have not.
void run_ranks(int ranks, const std::function<void(int rank)>& body, std::chrono::seconds limit);

/// The same with a limit of 60 s (240 s under ThreadSanitizer).
void run_ranks(int ranks, const std::function<void(int rank)>& body);

}  // namespace ronde::test
