// A worker's reports to the driver: one JSON line per event on standard output.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ronde/error.h"

namespace ronde::chaos {

/// Sets the rank that all later events carry.
void set_event_rank(int rank);

/// Writes {"rank", "pid", "event", "at_us", ...fields} as one line, in one write. `at_us` is the
/// monotonic clock. Safe in any thread.
void say(const std::string& event, nlohmann::json fields = nlohmann::json::object());

/// Says "failed" with what was thrown: code, message, and the rank it names.
void say_failed(const Error& error);

}  // namespace ronde::chaos
