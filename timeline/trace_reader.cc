#include "timeline/trace_reader.h"

#include <fmt/format.h>

#include <utility>

namespace ronde {
namespace {

constexpr int kEnd = std::ifstream::traits_type::eof();

bool is_space(int c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace

Result<TraceReader> TraceReader::open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(Code::kUnavailable, fmt::format("cannot read the trace {}", path));
  return TraceReader(std::move(file), path);
}

int TraceReader::take() {
  const int c = file_.rdbuf()->sbumpc();
  if (c != kEnd) ++position_;
  return c;
}

int TraceReader::take_after_space() {
  int c = take();
  while (is_space(c)) c = take();
  return c;
}

Status TraceReader::unexpected(int got, const char* wanted) const {
  const std::string what =
      got == kEnd ? "the file ends" : fmt::format("there is '{}'", static_cast<char>(got));
  return {Code::kInvalidArgument,
          fmt::format("{}: byte {}: {} where {} should be", path_,
                      got == kEnd ? position_ : position_ - 1, what, wanted)};
}

/// The rest of a string whose opening quote was taken.
std::string TraceReader::take_string() {
  std::string text;
  for (int c = take(); c != kEnd && c != '"'; c = take()) {
    text += static_cast<char>(c);
    if (c == '\\') text += static_cast<char>(take());
  }
  return text;
}

/// Skips a value up to the comma or brace that follows it in its object, which stays.
void TraceReader::skip_value(int first) {
  int depth = 0;
  for (int c = first; c != kEnd; c = take()) {
    if (c == '"') (void)take_string();
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    const int next = file_.rdbuf()->sgetc();
    if (depth <= 0 && (next == ',' || next == '}')) return;
  }
}

/// In an object: goes to the array under "traceEvents".
Status TraceReader::find_events() {
  for (;;) {
    int c = take_after_space();
    if (c == ',') c = take_after_space();
    if (c != '"') return unexpected(c, "the key \"traceEvents\"");
    const std::string key = take_string();
    if (c = take_after_space(); c != ':') return unexpected(c, "':'");
    c = take_after_space();
    if (key == "traceEvents") return c == '[' ? Status() : unexpected(c, "'['");
    skip_value(c);
  }
}

Status TraceReader::enter() {
  place_ = Place::kInside;
  const int c = take_after_space();
  if (c == '{') return find_events();
  return c == '[' ? Status() : unexpected(c, "'[' or '{'");
}

/// Takes an object whose brace was taken; false where the file ends before it does.
bool TraceReader::take_object(std::string& text) {
  text.assign(1, '{');
  for (int depth = 1; depth > 0;) {
    const int c = take();
    if (c == kEnd) return false;
    text += static_cast<char>(c);
    if (c == '"') text.append(take_string()).push_back('"');
    if (c == '{') ++depth;
    if (c == '}') --depth;
  }
  return true;
}

Result<std::optional<RawEvent>> TraceReader::next() {
  if (place_ == Place::kBefore) RONDE_RETURN_IF_ERROR(enter());
  if (place_ == Place::kAfter) return std::optional<RawEvent>();
  int c = take_after_space();
  if (c == ',') c = take_after_space();
  if (c == '{') {
    RawEvent event{{}, position_ - 1};
    if (take_object(event.text)) return std::optional<RawEvent>(std::move(event));
    c = kEnd;
  }
  if (c != ']' && c != kEnd) return unexpected(c, "'{', ',' or ']'");
  place_ = Place::kAfter;
  truncated_ = c == kEnd;
  return std::optional<RawEvent>();
}

}  // namespace ronde
