// The committed state of one rank of an elastic job: its last two copies, each whole or not there.
//
// A copy lies in a memory file of its own, which ends with its last user: a killed process leaves
// nothing behind. The file begins with a word that is 0 while the copy is made, and its step + 1
// once it is whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/os/memory_file.h"
#include "core/base/status.h"

namespace ronde::elastic {

/// The memory of one segment of a copy, and what keeps it mapped.
struct StoredSegment {
  std::shared_ptr<const Mapping> memory;
  std::span<std::byte> bytes;
};

/// Keeps two copies. Threads: one at a time.
class CommitStore {
 public:
  /// Begins a copy in place of the older one, and gives its memory: a segment of each size, aligned
  /// to 64 bytes. The contents are not defined. A second call begins anew. Segments of the older
  /// copy must not be used any more. Errors: kResourceExhausted, kUnavailable; both copies stay.
  Result<std::vector<StoredSegment>> begin(std::span<const std::size_t> sizes);

  /// Declares the copy whole. From now on it is the newest. Errors: kInvalidArgument without a
  /// begin(), or for a step that is not above the newest.
  Status commit(std::uint64_t step);

  /// The steps of whole copies, newest first.
  [[nodiscard]] std::vector<std::uint64_t> steps() const;

  /// The copy of `step`. Drops newer copies: training goes on from this one. Errors:
  /// kInvalidArgument if there is none, with the steps that there are.
  Result<std::vector<StoredSegment>> read(std::uint64_t step);

 private:
  /// The memory of one copy.
  struct Copy {
    std::shared_ptr<const Mapping> memory;  // null: never used
    std::vector<std::size_t> sizes;

    [[nodiscard]] std::optional<std::uint64_t> step() const;
    void set_word(std::uint64_t word) const;
    [[nodiscard]] std::vector<StoredSegment> segments() const;
  };
  [[nodiscard]] Copy& older();
  [[nodiscard]] std::optional<std::uint64_t> newest() const;

  std::array<Copy, 2> copies_;
  Copy* begun_ = nullptr;
};

}  // namespace ronde::elastic
