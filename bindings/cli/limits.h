// Limits of this machine that a job may reach, in sentences.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ronde {

/// One fact, such as "open files: 1024 (may be raised to 4096)". `bites`: too low for a usual job;
/// the text then has a remedy.
struct Limit {
  std::string text;
  bool bites = false;
};

/// Shared memory, open files, locked memory, reading of peers' memory, cores.
std::vector<Limit> machine_limits();

/// Bytes with a unit: "64 KiB", "1.5 GiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace ronde
