// The committed state of one rank of an elastic job: its last two copies, each whole or not there.
//
// A copy lies in a memory file of its own, which ends with its last user: a killed process leaves
// nothing behind. The file begins with a word that is 0 while the copy is made, and its step + 1
// once it is whole; then come the number of segments and their sizes. So another process that gets
// the file can read the copy.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bindings/elastic/huge_pages.h"
#include "core/base/os/file_descriptor.h"
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
  /// Takes the memory file of copy 0 or 1, which lives as long as the call.
  using FileHook = std::function<Status(int copy, int file)>;

  CommitStore() = default;
  CommitStore(CommitStore&&) = default;
  CommitStore& operator=(CommitStore&&) = default;

  /// Takes over copy 0 or 1 of another store by its memory file. Call it before begin(). Errors:
  /// kInvalidArgument for other files; this copy then stays as it is.
  Status adopt(int copy, FileDescriptor file);

  /// Calls the hook for the memory files that there are, and for each new one before its first
  /// commit. Errors: the hook's; begin() then fails with them, too.
  Status set_file_hook(FileHook hook);

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

  /// Drops both copies. Their memory is used again.
  void clear();

 private:
  static constexpr int kNone = -1;
  /// The memory of one copy.
  struct Copy {
    FileDescriptor file;
    std::shared_ptr<const Mapping> memory;  // null: never used
    std::vector<std::size_t> sizes;
    bool is_new = true;  // no copy has been written to it
    HugePageMover mover;

    [[nodiscard]] std::optional<std::uint64_t> step() const;
    void set_word(std::uint64_t word) const;
    void write_sizes() const;
    [[nodiscard]] std::vector<StoredSegment> segments() const;
  };
  [[nodiscard]] int older() const;
  [[nodiscard]] std::optional<std::uint64_t> newest() const;
  Status make_room(int copy, std::size_t bytes);

  std::array<Copy, 2> copies_;
  int begun_ = kNone;
  FileHook hook_;
};

}  // namespace ronde::elastic
