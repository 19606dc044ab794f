#include "bindings/cli/launch/traceback.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ronde {
namespace {

using Lines = std::vector<std::string>;

constexpr std::string_view kHeader = "Traceback (most recent call last):";
constexpr std::string_view kGroupHeader = "  + Exception Group Traceback (most recent call last):";
constexpr std::string_view kStackHeader = "(most recent call first):";  // of faulthandler
constexpr std::string_view kFatal = "Fatal Python error: ";
constexpr std::string_view kFrame = "  File \"";
constexpr std::string_view kTerminate = "terminate called ";
constexpr std::string_view kThrown = "terminate called after throwing an instance of '";
constexpr std::string_view kWhat = "  what():  ";
constexpr std::string_view kRankBegin = "[rank";
constexpr std::string_view kRankEnd = "]: ";
constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kMostFrames = 5;
constexpr std::size_t kMostMessageLines = 4;

/// These link two exceptions of a chain.
constexpr std::array<std::string_view, 2> kLinks = {
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:"};

/// Errors of Ronde that every rank raises once another one has failed.
constexpr std::array<std::string_view, 6> kConsequences = {
    "RankFailure", "AbortedError", "Aborted", "JobFailed", "DismissedError", "JobFailedError"};

Lines split_lines(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(without_rank_prefix(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Ronde's other threads log at any time, even within a line of the traceback.
std::string without_logs(std::string_view text) {
  constexpr std::string_view kMark = "] ronde ";
  constexpr std::size_t kTimeBytes = 13;  // "[23:04:18.541"
  std::string kept(text);
  for (std::size_t at = kept.find(kMark); at != std::string::npos; at = kept.find(kMark, at)) {
    if (at < kTimeBytes || !is_log_line(std::string_view(kept).substr(at - kTimeBytes))) {
      ++at;
      continue;
    }
    at -= kTimeBytes;
    const std::size_t end = std::min(kept.find('\n', at), kept.size() - 1);
    kept.erase(at, end + 1 - at);
  }
  return kept;
}

/// One frame: the line that names its place, and the source lines below.
struct PythonFrame {
  std::string file;
  std::string line;
  Lines text;
};

/// One exception of a chain.
struct Exception {
  std::vector<PythonFrame> frames;
  Lines message;        ///< Its first line begins with the type.
  bool linked = false;  ///< It belongs to the chain of the one before.
  bool aside = false;   ///< It has ended a thread, a child or a clean-up, not the program.
};

bool is_header(std::string_view line) { return line == kHeader || line == kGroupHeader; }

/// "Process Process-2:", before the traceback of a child of multiprocessing.
bool introduces_child(std::string_view line) {
  return line.starts_with("Process ") && line.ends_with(':');
}

/// "Exception in thread Thread-1:", "Exception ignored in: ...", "Error in sys.excepthook:".
bool introduces_other(std::string_view line) {
  return line.starts_with("Exception ") || line.starts_with("Error in ");
}

/// True for "KeyboardInterrupt", "pkg.Error: text" and the like.
bool names_exception(std::string_view line) {
  const std::string_view type = line.substr(0, line.find(':'));
  const bool letter =
      !type.empty() && (std::isalpha(static_cast<unsigned char>(type[0])) != 0 || type[0] == '_');
  return letter && std::ranges::all_of(type, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '<' || c == '>';
         });
}

bool is_link(std::string_view line) { return std::ranges::find(kLinks, line) != kLinks.end(); }

/// Reads `  File "train.py", line 5, in load`.
PythonFrame frame_of(const std::string& line) {
  PythonFrame frame;
  const std::size_t begin = kFrame.size();
  const std::size_t end = line.find('"', begin);
  if (end != std::string::npos) {
    frame.file = line.substr(begin, end - begin);
    const std::size_t number = line.find("line ", end);
    if (number != std::string::npos) {
      const std::size_t digits = number + 5;
      frame.line = line.substr(digits, line.find_first_not_of(kDigits, digits) - digits);
    }
  }
  frame.text.push_back(line);
  return frame;
}

/// Cuts off lines around a message that other processes or threads have written.
void trim_message(Lines& message) {
  const auto begin = std::ranges::find_if(message, names_exception);
  if (begin != message.end()) message.erase(message.begin(), begin);
  const auto is_other = [](const std::string& line) {
    return line.empty() || introduces_child(line) || introduces_other(line);
  };
  while (message.size() > 1 && is_other(message.back())) message.pop_back();
  if (message.size() == 1 && message.front().empty()) message.clear();
}

/// Reads one exception from `at` on, and moves `at` behind it. Processes that are interrupted at
/// once may write their headers one after the other.
Exception take_exception(const Lines& lines, std::size_t& at) {
  Exception found;
  found.aside = at > 0 && (introduces_child(lines[at - 1]) || introduces_other(lines[at - 1]));
  for (; at < lines.size(); ++at) {
    const std::string& line = lines[at];
    if (line.starts_with(kFrame)) {
      found.frames.push_back(frame_of(line));
    } else if (line.starts_with(' ') && !is_header(line)) {
      if (!found.frames.empty()) found.frames.back().text.push_back(line);
    } else if (!is_header(line) && !introduces_child(line)) {
      break;
    }
  }
  while (at < lines.size() && !is_link(lines[at]) && !is_header(lines[at])) {
    found.message.push_back(lines[at++]);
  }
  trim_message(found.message);
  return found;
}

std::vector<Exception> read_exceptions(const Lines& lines) {
  std::vector<Exception> all;
  bool linked = false;
  for (std::size_t at = 0; at < lines.size();) {
    Exception found = take_exception(lines, at);
    found.linked = std::exchange(linked, false);
    for (; at < lines.size() && (lines[at].empty() || is_link(lines[at])); ++at) {
      linked = linked || is_link(lines[at]);
    }
    if (!found.message.empty()) all.push_back(std::move(found));
  }
  return all;
}

/// The exceptions of a chain, the last one of which ended the program. Empty if there is none.
std::vector<Exception> read_chain(const Lines& lines) {
  std::vector<Exception> all = read_exceptions(lines);
  auto last = std::find_if(all.rbegin(), all.rend(), [](const auto& one) { return !one.aside; });
  if (last == all.rend()) last = all.rbegin();
  auto first = last;
  while (first != all.rend() && first->linked) ++first;
  if (first != all.rend()) ++first;
  return {first.base(), last.base()};
}

/// The lines of an exception group without the marks in front of them. Those of the exceptions in
/// it stay as they are.
Lines without_group_marks(Lines lines) {
  constexpr std::string_view kMark = "  | ";
  if (lines.empty() || lines.front() != kGroupHeader) return lines;
  for (std::string& line : lines) {
    if (line.starts_with(kMark)) line.erase(0, kMark.size());
  }
  return lines;
}

bool is_library(std::string_view file) {
  return file.starts_with('<') || file.find("/site-packages/") != std::string_view::npos ||
         file.find("/dist-packages/") != std::string_view::npos ||
         file.find("/lib/python3") != std::string_view::npos;
}

/// The folder of the Python package that carries this program; empty if none does.
const std::string& own_package() {
  static const std::string kFolder = [] {
    std::error_code error;
    const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    return std::filesystem::exists(folder / "__init__.py", error) ? folder.string() + "/" : "";
  }();
  return kFolder;
}

bool is_of_ronde(std::string_view file) {
  return file.find("-packages/ronde/") != std::string_view::npos ||
         (!own_package().empty() && file.starts_with(own_package()));
}

std::string place_of(const PythonFrame& frame) {
  return fmt::format("{}:{}", std::filesystem::path(frame.file).filename().string(), frame.line);
}

/// The innermost line of the user's, or else of a library that is not Ronde.
std::string user_place(const std::vector<PythonFrame>& frames) {
  const auto last_where = [&](auto wanted) -> const PythonFrame* {
    const auto found = std::find_if(frames.rbegin(), frames.rend(), wanted);
    return found == frames.rend() ? nullptr : &*found;
  };
  const PythonFrame* frame =
      last_where([](const PythonFrame& f) { return !is_library(f.file) && !is_of_ronde(f.file); });
  if (frame == nullptr) {
    frame = last_where([](const PythonFrame& f) { return !is_of_ronde(f.file); });
  }
  return frame == nullptr ? "" : place_of(*frame);
}

/// The type's name as users know it: errors of Ronde lose their module.
std::string_view without_module(std::string_view text) {
  if (!text.starts_with("ronde.")) return text;
  const std::size_t dot = text.substr(0, text.find(':')).rfind('.');
  return text.substr(dot + 1);
}

/// The exception's text in one line. Some messages begin with empty lines.
std::string headline(const Lines& message) {
  std::string text(without_module(message.front()));
  for (std::size_t i = 1; i < message.size() && text.ends_with(": "); ++i) {
    const std::size_t begin = message[i].find_first_not_of(' ');
    if (begin != std::string::npos) text += message[i].substr(begin);
  }
  if (text.find("before the current process has finished its bootstrapping") != std::string::npos ||
      text.find("An attempt has been made to start a new process") != std::string::npos) {
    text =
        "RuntimeError: the script starts processes when it is imported: put what it does under "
        "if __name__ == \"__main__\":";
  }
  return text;
}

/// The rank that a message of Ronde begins with, and what is said of it.
struct NamedRank {
  int rank = 0;
  std::string_view rest;
};

/// Reads "rank 1 (pid 7 on h) died".
std::optional<NamedRank> named_rank(std::string_view message) {
  constexpr std::string_view kBegin = "rank ";
  if (!message.starts_with(kBegin)) return std::nullopt;
  message.remove_prefix(kBegin.size());
  NamedRank named;
  const char* const end = message.data() + message.size();
  const auto [last, error] = std::from_chars(message.data(), end, named.rank);
  if (error != std::errc()) return std::nullopt;
  named.rest = message.substr(static_cast<std::size_t>(last - message.data()));
  return named;
}

/// True if Ronde says this of a rank that has failed.
bool tells_of_failure(std::string_view rest) {
  return rest.starts_with(" (pid ") || rest.starts_with(" has left the job") ||
         rest.starts_with(" died");
}

RaisedError error_of(std::string_view text, std::string place) {
  RaisedError error{std::string(text), std::move(place), false, -1};
  const std::size_t colon = text.find(": ");
  const bool of_ronde =
      std::ranges::find(kConsequences, text.substr(0, colon)) != kConsequences.end();
  const auto named =
      colon == std::string_view::npos ? std::nullopt : named_rank(text.substr(colon + 2));
  error.consequence = of_ronde || (named && tells_of_failure(named->rest));
  if (error.consequence && named) error.of_rank = named->rank;
  return error;
}

/// Few frames that tell most: those of the user, and the innermost.
std::vector<const PythonFrame*> chosen_frames(const std::vector<PythonFrame>& frames) {
  std::vector<const PythonFrame*> chosen;
  for (const PythonFrame& frame : frames) {
    if (!is_of_ronde(frame.file)) chosen.push_back(&frame);
  }
  if (chosen.size() <= kMostFrames) return chosen;
  const PythonFrame* const innermost = chosen.back();
  std::vector<const PythonFrame*> user;
  for (const PythonFrame* frame : chosen) {
    if (frame == innermost || !is_library(frame->file)) user.push_back(frame);
  }
  if (user.size() > kMostFrames) user.erase(user.begin() + 1, user.end() - (kMostFrames - 1));
  return user;
}

/// Marks below source lines help only at the innermost frame.
void append_frame(Lines& lines, const PythonFrame& frame, bool innermost) {
  for (const std::string& line : frame.text) {
    const bool marks = line.find_first_not_of(" ^~") == std::string::npos;
    if (!marks || innermost) lines.push_back(line);
  }
}

Lines shortened(const std::vector<Exception>& chain) {
  Lines lines;
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
    if (chain[i].message.empty()) continue;
    lines.push_back(
        fmt::format("before that: {}",
                    error_of(headline(chain[i].message), user_place(chain[i].frames)).sentence()));
  }
  const Exception& last = chain.back();
  if (!last.frames.empty()) lines.emplace_back(kHeader);
  const std::vector<const PythonFrame*> chosen = chosen_frames(last.frames);
  for (const PythonFrame* frame : chosen) append_frame(lines, *frame, frame == chosen.back());
  const std::size_t count = std::min(last.message.size(), kMostMessageLines);
  for (std::size_t i = 0; i < count; ++i) {
    lines.emplace_back(i == 0 ? without_module(last.message[i]) : last.message[i]);
  }
  return lines;
}

/// "terminate called after throwing an instance of 'T'", and "  what():  TEXT" below.
std::optional<ErrorOutput> read_terminate(Lines lines) {
  ErrorOutput output;
  std::string text = lines.front();
  if (text.starts_with(kThrown)) {
    text = text.substr(kThrown.size());
    text = text.substr(0, text.rfind('\''));
    if (lines.size() > 1 && lines[1].starts_with(kWhat)) {
      text += ": " + lines[1].substr(kWhat.size());
    }
  }
  for (const std::string_view module : {"ronde::v1::", "ronde::"}) {
    if (text.starts_with(module)) text = text.substr(module.size());
  }
  output.error = error_of(text, "");
  output.shorter = lines;
  output.full = std::move(lines);
  return output;
}

/// "Fatal Python error: Segmentation fault", and where the thread was, the innermost frame first.
ErrorOutput read_fatal(Lines lines) {
  constexpr std::string_view kThread = "Current thread ";
  std::vector<PythonFrame> frames;
  auto line = std::ranges::find_if(lines, [&](const auto& l) { return l.starts_with(kThread); });
  if (line != lines.end()) ++line;
  for (; line != lines.end() && line->starts_with(kFrame); ++line) {
    frames.insert(frames.begin(), frame_of(*line));
  }
  ErrorOutput output;
  output.error = error_of(lines.front(), user_place(frames));
  output.shorter = {lines.front()};
  for (const PythonFrame* frame : chosen_frames(frames))
    append_frame(output.shorter, *frame, false);
  output.left_out = static_cast<int>(lines.size()) - static_cast<int>(output.shorter.size());
  output.full = std::move(lines);
  return output;
}

/// True if `line`, as far as it has come, may become a line with a rank's prefix.
bool may_begin_rank_prefix(std::string_view line) {
  if (!line.starts_with(kRankBegin)) return kRankBegin.starts_with(line);
  const std::size_t end = line.find_first_not_of(kDigits, kRankBegin.size());
  if (end == std::string_view::npos) return true;
  return end > kRankBegin.size() && kRankEnd.starts_with(line.substr(end));
}

}  // namespace

std::string RaisedError::sentence() const {
  return place.empty() ? text : fmt::format("{} ({})", text, place);
}

std::string_view without_rank_prefix(std::string_view line) {
  if (!line.starts_with(kRankBegin)) return line;
  const std::size_t end = line.find_first_not_of(kDigits, kRankBegin.size());
  const bool prefix = end != std::string_view::npos && end > kRankBegin.size() &&
                      line.substr(end).starts_with(kRankEnd);
  return prefix ? line.substr(end + kRankEnd.size()) : line;
}

bool begins_error(std::string_view line, std::string_view before) {
  line = without_rank_prefix(line);
  if (introduces_other(before) || before.ends_with(kStackHeader)) return false;
  return is_header(line) || line.starts_with(kFrame) || line.starts_with(kTerminate) ||
         line.starts_with(kFatal);
}

bool may_begin_error(std::string_view line) {
  if (may_begin_rank_prefix(line)) return true;
  line = without_rank_prefix(line);
  constexpr std::array kStarts{kHeader, kGroupHeader, kFrame, kTerminate, kFatal};
  return std::ranges::any_of(kStarts, [&](std::string_view start) {
    return start.starts_with(line) || line.starts_with(start);
  });
}

/// "[23:04:18.541] ronde 0 warning: ...".
bool is_log_line(std::string_view line) {
  return line.size() > 22 && line[0] == '[' && line[3] == ':' && line[6] == ':' &&
         line.substr(13, 8) == "] ronde ";
}

std::optional<ErrorOutput> read_error(std::string_view text) {
  Lines lines = split_lines(without_logs(text));
  if (lines.empty()) return std::nullopt;
  if (lines.front().starts_with(kTerminate)) return read_terminate(std::move(lines));
  if (lines.front().starts_with(kFatal)) return read_fatal(std::move(lines));
  const std::vector<Exception> chain = read_chain(without_group_marks(lines));
  if (chain.empty()) return std::nullopt;
  ErrorOutput output;
  output.error = error_of(headline(chain.back().message), user_place(chain.back().frames));
  output.shorter = shortened(chain);
  output.trailing = static_cast<int>(chain.back().message.size()) - 1;
  output.full = std::move(lines);
  output.left_out = static_cast<int>(output.full.size()) - static_cast<int>(output.shorter.size());
  return output;
}

}  // namespace ronde
