// A file that appears under its name only when it is complete, compressed by gzip where its name
// says so.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace ronde {

/// Threads: one.
class OutFile {
 public:
  /// Errors: kUnavailable naming the file.
  static Result<OutFile> create(const std::string& path);
  /// Removes what is not finished.
  ~OutFile();
  OutFile(OutFile&&) noexcept;
  OutFile& operator=(OutFile&&) = delete;

  /// Appends; what goes wrong is told by finish().
  void write(std::string_view bytes);
  /// Gives the file its name. Errors: kUnavailable naming the file and why.
  Status finish();

 private:
  struct Draft;
  explicit OutFile(std::unique_ptr<Draft> draft);

  std::unique_ptr<Draft> draft_;
};

}  // namespace ronde
