#include "bindings/cli/launch/repeated_logs.h"

#include <cctype>

namespace ronde {
namespace {

constexpr std::chrono::seconds kAlike{2};
constexpr std::size_t kMostLines = 256;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The line without the time and rank it begins with, and with "#" for seconds.
std::string said_by(std::string_view line) {
  const std::size_t level = line.find(": ");
  std::string_view text = level == std::string_view::npos ? line : line.substr(level + 2);
  if (text.starts_with("rank ") && text.find(" on ") < text.find(": ")) {
    text = text.substr(text.find(": ") + 2);  // "rank 1 on node1: pending: ..."
  }
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

}  // namespace ronde
