// One simulated job, drawn from a seed: how many ranks on which hosts, what they submit, what goes
// wrong and when. What a life must satisfy: every rank sees the same operations in the same order,
// none lost or doubled, all end where nobody dies; after a death nothing is agreed that the dead
// rank had not submitted, and the survivors' next job ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ronde {

/// The numbers that a life is made of; smaller ones make a simpler life.
struct Lifetime {
  std::uint64_t seed = 0;
  std::size_t members = 1;
  std::size_t hosts = 1;
  std::size_t steps = 1;
  std::size_t tensors = 1;
  std::size_t unnamed = 0;
  std::size_t cache_capacity = 8;
  bool changing = false;          ///< Shapes change between steps.
  bool mismatches = false;        ///< Each step one rank submits one tensor with another shape.
  bool doubles = false;           ///< Each step one rank submits one tensor twice.
  bool disturb = false;           ///< Truncated and stray frames arrive, too.
  std::size_t payload_bytes = 0;  ///< Operations carry their data up to so many bytes.
  bool joins = false;             ///< All ranks join in the end, at times of their own.
  std::optional<std::size_t> death_after;  ///< Events (sweeps, for large jobs) before a rank dies.
};

/// A life of up to 16 ranks, or, with `large`, of 1,024 to 4,096.
Lifetime draw_lifetime(std::uint64_t seed, bool large);

/// Lives it; what went against the rules.
std::vector<std::string> live(const Lifetime& life);

/// The simplest life found that goes against the rules as `life` does.
Lifetime minimise(Lifetime life);

/// One line: `{"seed": 3, "members": 4, ...}`.
std::string describe(const Lifetime& life);

}  // namespace ronde
