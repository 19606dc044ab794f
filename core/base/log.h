// Logging for every folder. The text goes to a sink that the runtime installs (spdlog there);
// without one, warnings and errors go to standard error.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace ronde {

enum class LogLevel : std::uint8_t { kTrace = 0, kDebug, kInfo, kWarning, kError, kOff };

/// Receives each line that passes the level.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Installs level and sink for this process; an empty sink restores standard error.
/// Threads: any; the log is the process's, not a runtime's, as standard error is.
void set_log(LogLevel level, LogSink sink);

/// True if a line of `level` would be written; one relaxed load.
bool log_enabled(LogLevel level) noexcept;

/// Writes one line, without formatting it.
void log_line(LogLevel level, std::string_view line);

/// Formats and writes one line where `level` is enabled.
template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ronde
