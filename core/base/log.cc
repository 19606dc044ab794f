#include "core/base/log.h"

#include <atomic>
#include <cstdio>
#include <memory>

#include "core/base/mutex.h"

namespace ronde {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kWarning};

struct SinkHolder {
  Mutex mutex;
  std::shared_ptr<LogSink> sink RONDE_GUARDED_BY(mutex);
};

SinkHolder& holder() {
  static auto* instance = new SinkHolder;  // never destroyed: threads may log during exit
  return *instance;
}

}  // namespace

void set_log(LogLevel level, LogSink sink) {
  g_level.store(level, std::memory_order_relaxed);
  MutexLock lock(holder().mutex);
  holder().sink = sink ? std::make_shared<LogSink>(std::move(sink)) : nullptr;
}

bool log_enabled(LogLevel level) noexcept {
  return level >= g_level.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view line) {
  std::shared_ptr<LogSink> sink;
  {
    MutexLock lock(holder().mutex);
    sink = holder().sink;
  }
  if (sink) {
    (*sink)(level, line);
  } else {
    std::fprintf(stderr, "ronde: %.*s\n", static_cast<int>(line.size()), line.data());
  }
}

}  // namespace ronde
