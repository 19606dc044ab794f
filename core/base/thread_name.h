// Names of Ronde's own threads, for debuggers, top and `ronde doctor --job`.
#pragma once

#include <pthread.h>

namespace ronde {

/// The prefix of the names of all threads that Ronde starts.
inline constexpr const char* kThreadPrefix = "ronde-";

/// Names the calling thread: "ronde-" and a word, 15 bytes at most.
inline void name_this_thread(const char* name) noexcept {
  (void)::pthread_setname_np(::pthread_self(), name);
}

}  // namespace ronde
