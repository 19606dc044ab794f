#include "bindings/cli/launch/held_errors.h"

#include <algorithm>
#include <cctype>

#include "bindings/cli/launch/traceback.h"

namespace ronde {
namespace {

constexpr std::chrono::seconds kAlike{2};
constexpr std::size_t kMostLines = 256;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The message of a line of the log, without time, rank and level.
std::string_view message_of(std::string_view line) {
  const std::size_t level = line.find(": ");
  return level == std::string_view::npos ? line : line.substr(level + 2);
}

/// Takes rank and host off a post-mortem: "rank 1 on node1: pending: ...". Empty for another
/// message.
std::string_view post_mortem_of(std::string_view message) {
  if (!message.starts_with("rank ") || message.find(" on ") > message.find(": ")) return {};
  return message.substr(message.find(": ") + 2);
}

/// The line without the time and rank it begins with, and with "#" for seconds.
std::string said_by(std::string_view line) {
  std::string_view text = message_of(line);
  if (const std::string_view told = post_mortem_of(text); !told.empty()) text = told;
  std::string said;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::size_t end = at;
    while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
    const bool seconds =
        end > at && (at == 0 || text[at - 1] == ' ') && text.substr(end, 2) == " s" &&
        (end + 2 == text.size() || !std::isalpha(static_cast<unsigned char>(text[end + 2])));
    if (seconds) at = end;
    said += seconds ? '#' : text[at];
  }
  return said;
}

constexpr std::size_t kMostHeldBytes = std::size_t{256} << 10;
constexpr std::size_t kMostToldBytes = 200;

/// True if the line, as far as it has come, may be one of Ronde's log.
bool may_be_log(std::string_view line) {
  constexpr std::size_t kPrefixBytes = 23;
  return line.starts_with('[') && (line.size() < kPrefixBytes || is_log_line(line));
}

}  // namespace

bool RepeatedLogs::repeats(int rank, std::string_view line, TimePoint time) {
  std::string said = said_by(line);
  const auto found = written_.find(said);
  if (found != written_.end() && found->second.rank != rank && time - found->second.time < kAlike) {
    return true;
  }
  if (written_.size() >= kMostLines) written_.clear();
  written_[std::move(said)] = {rank, time};
  return false;
}

bool HeldErrors::holding(const Stream& stream) noexcept {
  return stream.mode == Mode::kTraceback || !stream.post_mortem.empty();
}

void HeldErrors::forget_traceback(Stream& stream) {
  stream.traceback.clear();
  stream.printed = false;
}

/// Decides on a whole line, which ends in '\n' or '\r'.
void HeldErrors::end_line(int rank, Stream& stream, std::string& out, TimePoint time) {
  const std::string_view line =
      without_rank_prefix(std::string_view(stream.line).substr(0, stream.line.size() - 1));
  const bool log = is_log_line(line);
  if (stream.mode == Mode::kLetPass && !line.starts_with(' ')) stream.mode = Mode::kPlain;
  const bool may_begin = stream.mode == Mode::kPlain && stream.passed == 0;
  const bool repeated = log && stream.passed == 0 && logs_.repeats(rank, line, time);
  if (may_begin && begins_error(line, stream.before)) {
    forget_traceback(stream);
    stream.mode = Mode::kTraceback;
    stream.traceback = std::exchange(stream.post_mortem, {}) + stream.line;
    stream.since = time;
  } else if (may_begin && log && !repeated && !stream.printed &&
             !post_mortem_of(message_of(line)).empty()) {
    stream.post_mortem += stream.line;
    stream.since = time;
  } else if (!repeated) {
    if (may_begin && begins_error(line, "")) stream.mode = Mode::kLetPass;
    out += std::exchange(stream.post_mortem, {});
    out.append(stream.line, stream.passed);
    if (!log && stream.printed && stream.mode == Mode::kPlain) forget_traceback(stream);
  }
  if (stream.mode != Mode::kTraceback) {
    if (!log && line.find_first_not_of(" \t") != std::string_view::npos) stream.telling = line;
    stream.before = line;
  }
  stream.line.clear();
  stream.passed = 0;
}

std::string HeldErrors::feed(int rank, std::string_view bytes, TimePoint time) {
  Stream& stream = streams_[rank];
  std::string out;
  for (const char c : bytes) {
    if (stream.mode == Mode::kTraceback) {
      stream.traceback += c;
      continue;
    }
    stream.line += c;
    if (c == '\n' || c == '\r') end_line(rank, stream, out, time);
  }
  if (stream.traceback.size() > kMostHeldBytes && !stream.printed) {
    out += std::exchange(stream.traceback, {});
    stream.mode = Mode::kLetPass;
  }
  const bool undecided =
      stream.passed == 0 && (may_begin_error(stream.line) || may_be_log(stream.line));
  if (stream.mode != Mode::kTraceback && !undecided) out += take_partial(stream);
  return holds_ ? out : std::string(bytes);
}

std::string HeldErrors::take_partial(Stream& stream) {
  if (stream.passed == stream.line.size()) return {};
  std::string out = std::exchange(stream.post_mortem, {}) + stream.line.substr(stream.passed);
  stream.passed = stream.line.size();
  return out;
}

std::vector<std::pair<int, std::string>> HeldErrors::partials() {
  std::vector<std::pair<int, std::string>> found;
  for (auto& [rank, stream] : streams_) {
    std::string text = take_partial(stream);
    if (holds_ && !text.empty()) found.emplace_back(rank, std::move(text));
  }
  return found;
}

bool HeldErrors::has_partial() const noexcept {
  return std::ranges::any_of(
      streams_, [](const auto& entry) { return entry.second.passed < entry.second.line.size(); });
}

HeldErrors::Ending HeldErrors::take(int rank) {
  const auto found = streams_.find(rank);
  if (found == streams_.end()) return {};
  Stream stream = std::move(found->second);
  streams_.erase(found);
  if (stream.telling.size() > kMostToldBytes) stream.telling.resize(kMostToldBytes);
  std::string& text = stream.traceback.empty() ? stream.post_mortem : stream.traceback;
  return {std::move(text), stream.since, stream.printed || !holds_, std::move(stream.telling)};
}

std::vector<std::pair<int, std::string>> HeldErrors::due(TimePoint time) {
  std::vector<std::pair<int, std::string>> found;
  for (auto& [rank, stream] : streams_) {
    if (!holding(stream) || time - stream.since < kLongest) continue;
    std::string text = std::exchange(stream.post_mortem, {});
    if (stream.mode == Mode::kTraceback) {
      stream.mode = Mode::kPlain;
      stream.printed = true;
      stream.before.clear();
      text = stream.traceback;
    }
    if (holds_) found.emplace_back(rank, std::move(text));
  }
  return found;
}

TimePoint HeldErrors::deadline() const noexcept {
  TimePoint earliest = kForever;
  for (const auto& [rank, stream] : streams_) {
    if (holding(stream)) earliest = std::min(earliest, stream.since + kLongest);
  }
  return earliest;
}

TimePoint HeldErrors::earliest_but(int rank) const noexcept {
  TimePoint earliest = kForever;
  for (const auto& [other, stream] : streams_) {
    if (other == rank || stream.mode != Mode::kTraceback) continue;
    const auto error = read_error(stream.traceback);
    if (error && !error->error.consequence) earliest = std::min(earliest, stream.since);
  }
  return earliest;
}

std::vector<int> HeldErrors::ranks() const {
  std::vector<int> found;
  for (const auto& [rank, stream] : streams_) {
    if (!stream.traceback.empty() || !stream.post_mortem.empty()) found.push_back(rank);
  }
  return found;
}

}  // namespace ronde
