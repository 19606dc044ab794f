// Never linked: ctest compiles it to see what clang makes of the annotations of core/base/mutex.h.
// With RONDE_TEST_LOCK it compiles; without, it reads a guarded member without the lock.
#include "core/base/mutex.h"

namespace ronde {

class Guarded {
 public:
  int read() {
#ifdef RONDE_TEST_LOCK
    MutexLock lock(mutex_);
#endif
    return value_;
  }

 private:
  Mutex mutex_;
  int value_ RONDE_GUARDED_BY(mutex_) = 0;
};

int read_guarded() { return Guarded().read(); }

}  // namespace ronde
