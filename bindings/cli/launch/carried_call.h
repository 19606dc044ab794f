// Both ends of ronde.run() in Python: the agent's memory files with the call and with each rank's
// answer, and the launcher's folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

struct AnswerMessage;
struct RankEnd;

/// The function call that all ranks of this host get. Threads: one.
class CarriedCall {
 public:
  /// Appends to the call.
  void take(std::string_view bytes);
  /// Errors: kResourceExhausted where a piece of the call could not be kept.
  [[nodiscard]] const Status& status() const noexcept { return status_; }
  [[nodiscard]] bool is_there() const noexcept { return call_.valid(); }
  /// The memory file of the call; -1 without one.
  [[nodiscard]] int call() const noexcept { return call_.get(); }

 private:
  Status append(std::string_view bytes);

  FileDescriptor call_;
  Status status_;
};

/// Makes the memory file in which a rank answers: it writes it, then seals it against writing.
/// Errors: kResourceExhausted.
Result<FileDescriptor> make_answer_file();

/// Sends the answer's bytes piece by piece, then an empty piece. Sends nothing of an answer that
/// its rank has not sealed: it did not come to its end.
void send_answer(int file, const std::function<void(std::string piece)>& send);

/// Reads the call from the folder, and writes the answers there. The bytes of both are Python's.
/// Without a folder it does nothing. Threads: one.
class CallFolder {
 public:
  static constexpr const char* kCall = "call.pickle";
  static constexpr const char* kFailure = "failure.json";

  CallFolder() = default;
  explicit CallFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

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
