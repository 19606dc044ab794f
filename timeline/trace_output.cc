#include "timeline/trace_output.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <utility>

#include "timeline/perfetto_output.h"
#include "timeline/profiler_output.h"
#include "timeline/trace_file.h"
#include "timeline/trace_format.h"

namespace ronde {
namespace {

/// The position after the string whose opening quote is at `at`.
std::size_t after_string(std::string_view text, std::size_t at) {
  for (++at; text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

std::size_t after_space(std::string_view text, std::size_t at) {
  return text.find_first_not_of(" \t\r\n", at);
}

/// The number under "ts" in a valid JSON object.
std::optional<std::string_view> time_text(std::string_view text) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '"') {
      if (text[at] == '{' || text[at] == '[') ++depth;
      if (text[at] == '}' || text[at] == ']') --depth;
      ++at;
      continue;
    }
    const std::size_t end = after_string(text, at);
    const bool time = depth == 1 && text.substr(at, end - at) == "\"ts\"";
    at = end;
    if (!time || text[at = after_space(text, at)] != ':') continue;
    at = after_space(text, at + 1);
    return text.substr(at, text.find_first_of(",} \t\r\n", at) - at);
  }
  return std::nullopt;
}

/// One end of an arrow, bound to the open span.
void append_end(std::string& out, char phase, const Arrow& end) {
  fmt::format_to(std::back_inserter(out),
                 ",\n{{\"ph\":\"{}\",\"bp\":\"e\",\"cat\":\"ronde\",\"name\":\"{}\",\"id\":{},"
                 "\"pid\":{},\"tid\":{},\"ts\":",
                 phase, kFlowName, end.number, end.rank, end.lane);
  append_micros(out, end.time_ns);
  out += '}';
}

}  // namespace

Result<std::unique_ptr<TraceOutput>> open_output(const std::string& path, Flows& flows) {
  if (path.ends_with('/')) {
    return std::unique_ptr<TraceOutput>(std::make_unique<ProfilerOutput>(path));
  }
  RONDE_ASSIGN_OR_RETURN(OutFile file, OutFile::create(path));
  if (names_perfetto(path)) {
    return std::unique_ptr<TraceOutput>(std::make_unique<PerfettoOutput>(std::move(file), flows));
  }
  return std::unique_ptr<TraceOutput>(std::make_unique<JsonOutput>(std::move(file), flows));
}

void JsonOutput::add(const MergedEvent& event) {
  line_ = any_ ? ",\n" : "[\n";
  any_ = true;
  const auto time = event.event.timed ? time_text(event.text) : std::nullopt;
  if (time) {
    const auto before = static_cast<std::size_t>(time->data() - event.text.data());
    line_ += event.text.substr(0, before);
    append_micros(line_, event.time_ns);
    line_ += event.text.substr(before + time->size());
  } else {
    line_ += event.text;
  }
  if (const auto arrow = flows_.arriving(event.event, event.time_ns)) append_arrow(*arrow, event);
  file_.write(line_);
}

void JsonOutput::append_arrow(const Arrow& arrow, const MergedEvent& event) {
  append_end(line_, 's', arrow);
  append_end(line_, 'f', {arrow.number, event.event.pid, event.event.tid, event.time_ns});
}

Status JsonOutput::finish() {
  file_.write(any_ ? "\n]\n" : "[\n]\n");
  return file_.finish();
}

}  // namespace ronde
