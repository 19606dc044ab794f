// The agent's end of ronde.run() in Python: memory files with the call, and with each rank's
// answer. CallFolder is the launcher's end.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

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

}  // namespace ronde
