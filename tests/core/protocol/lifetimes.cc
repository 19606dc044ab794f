// ronde_lifetimes COUNT [FIRST_SEED [EVERY]]: lives COUNT simulated jobs, every EVERY-th of them
// (0, the default: none) of 1,024 to 4,096 ranks, and prints JSON lines: what went wrong,
// simplified, and the counts now and then. Exit status 1 where anything did.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "tests/core/protocol/lifetime.h"

int main(int argc, char** argv) {
  using namespace ronde;
  constexpr std::uint64_t kTellEvery = 10'000;
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const std::uint64_t every = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
  std::uint64_t large = 0;
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool is_large = every > 0 && i % every == 0;
    large += is_large ? 1 : 0;
    const Lifetime life = draw_lifetime(first + i, is_large);
    if (const auto violations = live(life); !violations.empty()) {
      ++wrong;
      fmt::print("{{\"life\": {}, \"simplest\": {}, \"first\": \"{}\"}}\n", describe(life),
                 describe(minimise(life)), violations.front());
    }
    if ((i + 1) % kTellEvery != 0 && i + 1 != count) continue;
    fmt::print("{{\"lives\": {}, \"large\": {}, \"wrong\": {}}}\n", i + 1, large, wrong);
    std::fflush(stdout);
  }
  return wrong == 0 ? 0 : 1;
}
