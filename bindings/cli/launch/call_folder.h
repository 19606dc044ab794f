// The launcher's end of ronde.run() in Python: a folder of this host with the function call that
// all ranks get, and with what each rank answers. CarriedCall is the agents' end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bindings/cli/launch/failure_report.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/status.h"

namespace ronde {

/// Reads the call from the folder, and writes the answers there. The bytes of both are Python's.
/// Without a folder it does nothing. Threads: one.
class CallFolder {
 public:
  static constexpr const char* kCall = "call.pickle";
  static constexpr const char* kFailure = "failure.json";

  explicit CallFolder(std::filesystem::path folder = {}) : folder_(std::move(folder)) {}

  /// The frames that bring the call to an agent, before its job. Errors: kInvalidArgument where the
  /// call cannot be read.
  [[nodiscard]] Result<std::vector<std::string>> frames() const;
  /// Appends to the rank's answer. The last piece, an empty one, makes RANK.pickle of it. Errors:
  /// kUnavailable where it cannot be written.
  [[nodiscard]] Status take(const AnswerMessage& message) const;
  /// Writes why the job has failed, for the caller: a text, and the rank where one is the cause.
  void write_failure(const std::string& text, const RankEnd* cause = nullptr) const;

 private:
  std::filesystem::path folder_;  ///< Empty: none.
};

}  // namespace ronde
