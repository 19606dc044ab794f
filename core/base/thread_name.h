// Names for Ronde's own threads, so that debuggers, top and `ronde doctor --job` can tell them.
#pragma once

#include <pthread.h>

namespace ronde {

/// What the names of all threads that Ronde starts begin with.
inline constexpr const char* kThreadPrefix = "ronde-";

/// Names the calling thread: "ronde-" and a word, 15 bytes at most.
inline void name_this_thread(const char* name) noexcept {
  (void)::pthread_setname_np(::pthread_self(), name);
}

}  // namespace ronde
