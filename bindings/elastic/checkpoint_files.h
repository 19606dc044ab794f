// The files of checkpoints: written completely or not at all, checked before they are used.
//
// A file is one line, "ronde checkpoint 1 STEP BYTES SHA256", then the state as its writer packs
// it. A folder has the files of another library, and ronde.json with their checksums. A writer
// works in a folder whose name begins with a dot, and holds a lock on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/elastic/agreement.h"

namespace ronde::elastic {

/// The checkpoint files of one state. Those that are not whole are set aside under another name,
/// and never used. Problems are kept for the training's thread, which goes on. Threads: one at a
/// time, that of write_later() among them; note_unwritten() and take_problems(): any.
class CheckpointFiles {
 public:
  using Path = std::filesystem::path;
  /// Makes a file or folder, or fills one. May throw what derives from std::exception.
  using Fill = std::function<void(const Path&)>;

  /// path: absolute. Names are it, a step and one of the suffixes; new files have the first one.
  /// keep: so many of the newest stay. needs_whole: nobody begins from scratch beside damaged ones.
  CheckpointFiles(Path path, std::vector<std::string> suffixes, int keep, bool needs_whole)
      : path_(std::move(path)),
        suffixes_(std::move(suffixes)),
        keep_(keep),
        needs_whole_(needs_whole) {}

  ~CheckpointFiles() { wait(); }
  CheckpointFiles(const CheckpointFiles&) = delete;
  CheckpointFiles& operator=(const CheckpointFiles&) = delete;

  /// True if there are files, whole or not.
  [[nodiscard]] bool any() const { return !files().empty(); }
  /// The step of the newest one that is whole; 0 if there is none.
  [[nodiscard]] std::int64_t newest_step();
  /// Those that are not whole: that are set aside, and any that cannot be.
  [[nodiscard]] std::vector<Path> damaged();
  /// Adds what this rank can load.
  void tell(StartFacts& facts);
  /// The whole file or folder of a step; nothing if there is none.
  [[nodiscard]] std::optional<Path> whole(std::int64_t step);
  /// The state in the whole file of a step. Errors: kUnavailable.
  Result<std::string> read(std::int64_t step);

  /// Writes a step's file, also after a loss of power, then removes those that are too old.
  void write(std::int64_t step, std::span<const std::byte> contents);
  /// The same in a thread, after the file before. wait() waits for it.
  void write_later(std::int64_t step, std::string contents);
  void wait();
  /// As write(), with a folder.
  void write_folder(std::int64_t step, const Fill& fill);

  /// Keeps a problem of writing this step.
  void note_unwritten(std::int64_t step, const std::string& why);
  /// The problems since the last call. first_on_host: also those that all ranks of a host see.
  [[nodiscard]] std::vector<std::string> take_problems(bool first_on_host) RONDE_EXCLUDES(mutex_);

 private:
  using File = std::pair<std::int64_t, Path>;
  using Signature = std::vector<std::array<std::int64_t, 3>>;  // changes if the files do
  struct Problem {
    std::string text;
    bool of_host = false;
  };

  static std::optional<Signature> signature_of(const Path& path);
  [[nodiscard]] std::optional<std::int64_t> step_in(const std::string& name) const;
  [[nodiscard]] std::vector<File> files() const;
  [[nodiscard]] Path new_file(std::int64_t step) const;
  bool is_whole(const File& file);
  void set_aside(const Path& path, const std::string& why);
  void note(std::string text, bool of_host = false) RONDE_EXCLUDES(mutex_);
  void note_unused(const Path& path, const std::string& why);
  void write_part(std::int64_t step, const Fill& fill);
  void remove_stale_parts() const;
  void remove_older(std::int64_t step);

  const Path path_;
  const std::vector<std::string> suffixes_;
  const int keep_;
  const bool needs_whole_;
  std::map<Path, Signature> whole_;  // that were checked, as they were
  std::set<Path> unused_;            // that were told, and stay
  bool told_later_ = false;
  std::thread writer_;
  Mutex mutex_;
  std::vector<Problem> problems_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde::elastic
