#include "bindings/cli/launch/local_ranks.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <optional>

#include "bindings/elastic/commit_store.h"

namespace ronde {
namespace {

/// The files of a worker that has committed this step, and was in the middle of the next one.
CopyFiles copies_of(std::optional<std::uint64_t> step) {
  CopyFiles files;
  elastic::CommitStore store;
  REQUIRE(store
              .set_file_hook([&](int copy, int file) {
                files.at(static_cast<std::size_t>(copy)) = FileDescriptor(::dup(file));
                return Status();
              })
              .ok());
  const std::size_t size = 100;
  if (step) {
    REQUIRE(store.begin({&size, 1}).ok());
    REQUIRE(store.commit(*step).ok());
  }
  REQUIRE(store.begin({&size, 1}).ok());
  return files;
}

TEST_CASE("kept copies: the next worker gets those of the newest step") {
  KeptCopies kept;
  CHECK(kept.add(copies_of(10), 3) == 10);
  CHECK(kept.add(copies_of(50), 3) == 50);
  CHECK(kept.add(copies_of(0), 3) == 0);
  CHECK(newest_step_of(kept.take()) == 50);
  CHECK(newest_step_of(kept.take()) == 10);
  CHECK(newest_step_of(kept.take()) == 0);
  CHECK(newest_step_of(kept.take()) == kNoCopies);
}

TEST_CASE("kept copies: what is not whole is not kept, nor more than there may be") {
  KeptCopies kept;
  CHECK(kept.add(copies_of({}), 2) == kNoCopies);
  CHECK(kept.add({}, 2) == kNoCopies);
  for (const std::uint64_t step : {7U, 5U, 6U}) kept.add(copies_of(step), 2);
  CHECK(newest_step_of(kept.take()) == 7);
  CHECK(newest_step_of(kept.take()) == 6);
  CHECK(newest_step_of(kept.take()) == kNoCopies);
}

}  // namespace
}  // namespace ronde
