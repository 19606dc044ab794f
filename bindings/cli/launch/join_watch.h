// Notices a job that has ended well though no rank ever joined it: each ran the script for itself.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/launch/messages.h"

namespace ronde {

/// Counts the joins that agents report. Threads: one.
class JoinWatch {
 public:
  void on_exited(const RankMessage& rank) {
    ++ended_;
    joined_ = joined_ || rank.joined;
  }
  /// The sentence for a job of this command that has ended well. Empty if a rank has joined, if
  /// there was one rank, and for other commands than Python's scripts, which need not join.
  [[nodiscard]] std::string complaint(const std::vector<std::string>& command) const;

 private:
  int ended_ = 0;
  bool joined_ = false;
};

}  // namespace ronde
