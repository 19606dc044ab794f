// Turns the output of many ranks into whole lines with a prefix, progress bars included.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ronde {

/// Merges the streams of all ranks that go to one destination. A line is passed on when it ends in
/// '\n' or '\r'; what stays unfinished (a prompt, a progress bar that ends without either) is
/// passed on by flush_partial(). Threads: one.
class LinePrinter {
 public:
  /// Takes in bytes of `rank` and returns what is to be written now.
  std::string feed(int rank, std::string_view bytes);
  /// A line of the launcher's own, as a line to itself.
  std::string own_line(std::string_view text);
  /// What is unfinished, written as far as it has come.
  std::string flush_partial();
  [[nodiscard]] bool has_partial() const noexcept;

 private:
  struct Stream {
    std::string pending;
    bool after_return = false;  ///< The last piece ended in '\r': a '\n' now ends the same line.
  };
  static constexpr int kNobody = -1;

  std::string begin_line(int rank);
  std::string end_foreign_line(int rank);

  std::map<int, Stream> streams_;
  int open_rank_ = kNobody;  ///< Whose unfinished line the destination shows.
};

}  // namespace ronde
