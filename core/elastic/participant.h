// A worker's part in one epoch of an elastic job after another, as it tells the launcher.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "core/elastic/notes.h"

namespace ronde::elastic {

/// One worker's knowledge of its epochs. It sends nothing. Threads: one.
class Participant {
 public:
  bool began = false;           ///< The ranks of its last epoch were connected.
  bool holds_state = false;     ///< Others can start from its committed state.
  bool has_copies = false;      ///< It was given copies from which the job can go on,
  bool has_checkpoint = false;  ///< or it can load a checkpoint.

  /// Its message to the launcher while it waits for the next epoch.
  [[nodiscard]] ReadyNote ready() const;
  /// The launcher has answered; what ended the last epoch is known now.
  void answered();
  /// The answer is a place in an epoch.
  void placed(EpochNote place);
  /// Remembers what ended the epoch, for the launcher: the first cause counts. rank: one that was
  /// lost; -1: none.
  void failed(const std::string& why, int rank);

  /// Its place in the last epoch; null before the first.
  [[nodiscard]] const EpochNote* place() const noexcept { return place_ ? &*place_ : nullptr; }

 private:
  std::optional<EpochNote> place_;
  std::set<WorkerId> suspects_;  // workers that it has lost
  std::string why_;
};

}  // namespace ronde::elastic
