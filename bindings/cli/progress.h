// How far the reading of large traces is, for people who watch.
#pragma once

#include <cstdint>
#include <functional>

namespace ronde {

/// Shows the bytes done, of how many, on one line of stderr; empty where that is no terminal.
std::function<void(std::uint64_t done, std::uint64_t total)> shown_progress();

}  // namespace ronde
