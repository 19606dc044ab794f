// Shows the progress of reading large traces.
#pragma once

#include <cstdint>
#include <functional>

namespace ronde {

/// Shows read and total bytes on one line of stderr; empty if stderr is no terminal.
std::function<void(std::uint64_t done, std::uint64_t total)> shown_progress();

}  // namespace ronde
