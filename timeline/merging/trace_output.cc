#include "timeline/merging/trace_output.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
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

struct OutFile::Temporary {
  std::string path;
  std::string name;
  gzFile file = nullptr;
  int error = 0;

  Temporary(std::string final_path, std::string temporary_name)
      : path(std::move(final_path)), name(std::move(temporary_name)) {}
  ~Temporary() {
    if (file == nullptr) return;
    gzclose(file);
    std::error_code ignored;
    std::filesystem::remove(name, ignored);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
};

OutFile::OutFile(std::unique_ptr<Temporary> temporary) : temporary_(std::move(temporary)) {}
OutFile::~OutFile() = default;
OutFile::OutFile(OutFile&&) noexcept = default;

Result<OutFile> OutFile::create(const std::string& path) {
  make_folder_of(path);
  auto temporary = std::make_unique<Temporary>(path, fmt::format("{}.{}.tmp", path, ::getpid()));
  errno = 0;
  // T: no compression. Level 1 is four times as fast as level 6, with a fifth more bytes.
  temporary->file = gzopen(temporary->name.c_str(), names_gzip(path) ? "wbe1" : "wbeT");
  if (temporary->file == nullptr) return unwritable(path, errno);
  (void)gzbuffer(temporary->file, kBufferBytes);
  return OutFile(std::move(temporary));
}

void OutFile::write(std::string_view bytes) {
  if (temporary_->error != 0 || bytes.empty()) return;
  errno = 0;
  const auto written =
      gzwrite(temporary_->file, bytes.data(), static_cast<unsigned int>(bytes.size()));
  if (written <= 0) temporary_->error = errno == 0 ? EIO : errno;
}

Status OutFile::finish() {
  errno = 0;
  const int closed = gzclose(std::exchange(temporary_->file, nullptr));
  if (temporary_->error == 0 && closed != Z_OK) temporary_->error = errno == 0 ? EIO : errno;
  std::error_code error(temporary_->error, std::generic_category());
  if (!error) std::filesystem::rename(temporary_->name, temporary_->path, error);
  if (!error) return {};
  std::error_code ignored;
  std::filesystem::remove(temporary_->name, ignored);
  return unwritable(temporary_->path, error.value());
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
  fmt::format_to(std::back_inserter(out),
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
