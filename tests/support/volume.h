// How often a test repeats what it draws.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace ronde::test {

/// True if `tests/run.sh --all` runs the tests.
inline bool runs_volumes() {
  return std::getenv("RONDE_TEST_VOLUME") != nullptr;  // NOLINT(concurrency-mt-unsafe): never set
}

/// `usual` repetitions, or `all` of them under --all.
inline std::size_t repetitions(std::size_t usual, std::size_t all) {
  return runs_volumes() ? all : usual;
}

}  // namespace ronde::test
