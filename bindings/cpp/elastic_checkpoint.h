// Checkpoints of a state: files that a thread writes, each of them whole or not there.
//
// A file is one line, "ronde state 1 STEP BYTES HASH", then the contents. Only files that were
// checked count: others are set aside under another name, and never used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/elastic/agreement.h"
#include "ronde/elastic.h"

namespace ronde::elastic {

/// The checkpoint files of one state. Threads: the training's, and one that writes.
class Checkpoints {
 public:
  /// Throws InvalidArgument for a path without a name, and for other numbers.
  Checkpoints(const std::string& path, CheckpointOptions options);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// Adds what this rank can load.
  void tell(StartFacts& facts);
  /// The contents of a step's file. Throws Error if it cannot be read.
  [[nodiscard]] std::string read(std::int64_t step) const;
  [[nodiscard]] std::filesystem::path file_of(std::int64_t step) const;
  [[nodiscard]] bool due(std::int64_t step) const { return step % options_.every == 0; }
  /// Starts writing a step's file, unless it is there; waits for the one before.
  void write(std::int64_t step, std::string contents);
  /// Waits for the file that is being written. Warns if it could not be: training goes on.
  void wait();

  /// Warns that training begins from scratch beside damaged files, or throws JobFailed.
  static void begin_from_scratch(bool forbidden, bool warns);

 private:
  using File = std::pair<std::int64_t, std::filesystem::path>;

  [[nodiscard]] std::vector<File> files() const;
  [[nodiscard]] bool any_damaged() const;
  bool is_whole(const File& file);
  void write_file(std::int64_t step, const std::string& contents);
  void remove_stale_parts() const;
  void remove_older(std::int64_t step);

  const std::filesystem::path path_;
  const CheckpointOptions options_;
  std::set<std::int64_t> whole_;  // steps of files that were checked
  std::thread writer_;
  std::string problem_;  // of the writer
};

}  // namespace ronde::elastic
