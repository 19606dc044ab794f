#include "timeline/merging/trace_output.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "timeline/merging/perfetto_output.h"
#include "timeline/merging/profiler_output.h"
#include "timeline/recording/trace_file.h"
#include "timeline/recording/trace_format.h"

namespace ronde {
namespace {

constexpr unsigned int kBufferBytes = 1U << 20;

Status unwritable(const std::string& path, int error) {
  return {Code::kUnavailable,
          fmt::format("cannot write {}: {}", path, std::generic_category().message(error))};
}

}  // namespace

void OutFile::Close::operator()(gzFile_s* file) const { (void)gzclose(file); }

OutFile::OutFile(const std::string& path)
    : path_(path),
      temporary_(fmt::format("{}.{}.tmp", path, ::getpid())),
      // T: no compression. Level 1 is four times as fast as level 6, with a fifth more bytes.
      file_(gzopen(temporary_.c_str(), names_gzip(path) ? "wbe1" : "wbeT")) {}

OutFile::~OutFile() {
  std::error_code ignored;
  if (file_) std::filesystem::remove(temporary_, ignored);
}

Result<OutFile> OutFile::create(const std::string& path) {
  make_folder_of(path);
  errno = 0;
  OutFile file(path);
  if (!file.file_) return unwritable(path, errno);
  (void)gzbuffer(file.file_.get(), kBufferBytes);
  return file;
}

void OutFile::write(std::string_view bytes) {
  if (error_ != 0 || bytes.empty()) return;
  errno = 0;
  const auto written = gzwrite(file_.get(), bytes.data(), static_cast<unsigned int>(bytes.size()));
  if (written <= 0) error_ = errno == 0 ? EIO : errno;
}

Status OutFile::finish() {
  errno = 0;
  const int closed = gzclose(file_.release());
  if (error_ == 0 && closed != Z_OK) error_ = errno == 0 ? EIO : errno;
  std::error_code error(error_, std::generic_category());
  if (!error) std::filesystem::rename(temporary_, path_, error);
  if (!error) return {};
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
  return unwritable(path_, error.value());
}

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

/// One end of an arrow, bound to the span that the event begins.
void append_end(std::string& out, char phase, std::uint64_t arrow, const MergedEvent& begin) {
  out += fmt::format(
      ",\n{{\"ph\":\"{}\",\"bp\":\"e\",\"cat\":\"ronde\",\"name\":\"{}\",\"id\":{},"
      "\"pid\":{},\"tid\":{},\"ts\":",
      phase, kFlowName, arrow, begin.event.pid, begin.event.tid);
  append_micros(out, begin.time_ns + 1);
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
  append_arrows(event);
  file_.write(line_);
}

void JsonOutput::append_arrows(const MergedEvent& event) {
  for (const std::uint64_t arrow : flows_.leaving(event.event, event.time_ns)) {
    append_end(line_, 's', arrow, event);
  }
  if (const auto arrow = flows_.arriving(event.event, event.time_ns)) {
    append_end(line_, 'f', *arrow, event);
  }
}

Status JsonOutput::finish() {
  file_.write(any_ ? "\n]\n" : "[\n]\n");
  return file_.finish();
}

}  // namespace ronde
