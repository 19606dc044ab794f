#include "bindings/runtime/log_sink.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace ronde {

void install_log_sink(LogLevel level, int rank) {
  auto logger =
      std::make_shared<spdlog::logger>("ronde", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(fmt::format("[%H:%M:%S.%e] ronde {} %l: %v", rank));
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  set_log(level, [logger](LogLevel of, std::string_view line) {
    logger->log(static_cast<spdlog::level::level_enum>(of), "{}", line);
  });
}

}  // namespace ronde
