// A file that gets its name only when it is complete. Names that end in .gz are compressed.
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
  /// Removes an unfinished file.
  ~OutFile();
  OutFile(OutFile&&) noexcept;
  OutFile& operator=(OutFile&&) = delete;

  /// Appends. finish() reports errors.
  void write(std::string_view bytes);
  /// Gives the file its name. Errors: kUnavailable naming the file and why.
  Status finish();

 private:
  struct Draft;
  explicit OutFile(std::unique_ptr<Draft> draft);

  std::unique_ptr<Draft> draft_;
};

}  // namespace ronde
