#include "timeline/reading/trace_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/os/folders.h"
#include "timeline/recording/trace_file.h"

namespace ronde {
namespace {

constexpr int kEnd = -1;
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

bool is_space(int c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/// Bytes that begin or end strings and objects.
constexpr std::array<bool, 256> kStops = [] {
  std::array<bool, 256> stops{};
  for (const char c : {'"', '{', '}'}) stops[static_cast<unsigned char>(c)] = true;
  return stops;
}();

}  // namespace

void TraceReader::Close::operator()(gzFile_s* file) const { (void)gzclose_r(file); }

Result<TraceReader> TraceReader::open(const std::string& path) {
  if (names_perfetto(path)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: this is a trace in Perfetto's own format, which Ronde only "
                              "writes; give the traces of the ranks in its place, {} and so on, "
                              "which lie beside it, or what `ronde timeline merge` makes of them "
                              "under a name that ends in .json",
                              path, rank_trace_path(path, 0)));
  }
  // zlib passes uncompressed files through.
  const gzFile file = is_folder(path) ? nullptr : gzopen(path.c_str(), "rbe");
  if (file == nullptr) {
    const std::string why = std::generic_category().message(is_folder(path) ? EISDIR : errno);
    return Status(Code::kUnavailable, fmt::format("cannot read the trace {}: {}", path, why));
  }
  (void)gzbuffer(file, kChunkBytes);
  return TraceReader(file, path);
}

TraceReader::TraceReader(gzFile_s* file, std::string path)
    : file_(file), path_(std::move(path)), buffer_(kChunkBytes + kPadding, '\0') {}

std::uint64_t TraceReader::file_bytes() const noexcept {
  return static_cast<std::uint64_t>(std::max<z_off_t>(0, gzoffset(file_.get())));
}

bool TraceReader::can_skip() const noexcept { return gzdirect(file_.get()) != 0; }

void TraceReader::skip_to(std::uint64_t position) {
  if (gzseek(file_.get(), static_cast<z_off_t>(position), SEEK_SET) < 0) return;
  gone_ = position;
  at_ = filled_ = 0;
  place_ = Place::kInside;
  int c = take();
  while (c != kEnd && !(c == '\n' && (peek() == '{' || peek() == ']'))) c = take();
}

/// Reads more and drops bytes that are no longer needed. Returns false at the end, or where a
/// compressed file breaks off.
bool TraceReader::fill() {
  const std::size_t from = keeping_ ? kept_ : at_;
  std::memmove(buffer_.data(), buffer_.data() + from, filled_ - from);
  gone_ += from;
  at_ -= from;
  kept_ = 0;
  filled_ -= from;
  if (filled_ + kPadding >= buffer_.size()) buffer_.resize(2 * buffer_.size());
  const std::size_t room = std::min(kChunkBytes, buffer_.size() - kPadding - filled_);
  const int got = gzread(file_.get(), buffer_.data() + filled_, static_cast<unsigned int>(room));
  if (got <= 0) return false;
  filled_ += static_cast<std::size_t>(got);
  return true;
}

int TraceReader::peek() {
  if (at_ == filled_ && !fill()) return kEnd;
  return static_cast<unsigned char>(buffer_[at_]);
}

int TraceReader::take() {
  const int c = peek();
  if (c != kEnd) ++at_;
  return c;
}

int TraceReader::take_after_space() {
  int c = take();
  while (is_space(c)) c = take();
  return c;
}

namespace {

/// A byte as errors show it: 'j', or 0xe1.
std::string shown(int byte) {
  const bool is_printable = byte >= 0x20 && byte < 0x7f;
  return is_printable ? fmt::format("'{}'", static_cast<char>(byte)) : fmt::format("{:#04x}", byte);
}

}  // namespace

Status TraceReader::unexpected(int got, const char* wanted) const {
  const std::string what = got == kEnd ? "the file ends" : fmt::format("there is {}", shown(got));
  return {Code::kInvalidArgument,
          fmt::format("{}: byte {}: {} where {} should be", path_,
                      got == kEnd ? position() : position() - 1, what, wanted)};
}

/// Skips the rest of a string after its opening quote. Returns false if the file ends in it.
bool TraceReader::skip_string() {
  for (;;) {
    const char* const from = buffer_.data() + at_;
    const char* const quote = static_cast<const char*>(std::memchr(from, '"', filled_ - at_));
    const char* const slash = static_cast<const char*>(std::memchr(
        from, '\\',
        static_cast<std::size_t>((quote == nullptr ? buffer_.data() + filled_ : quote) - from)));
    if (slash != nullptr) {
      at_ = static_cast<std::size_t>(slash - buffer_.data()) + 1;
      if (take() == kEnd) return false;
    } else if (quote != nullptr) {
      at_ = static_cast<std::size_t>(quote - buffer_.data()) + 1;
      return true;
    } else {
      at_ = filled_;
      if (!fill()) return false;
    }
  }
}

/// The rest of a string after its opening quote, with its escapes.
std::string TraceReader::take_string() {
  keeping_ = true;
  kept_ = at_;
  const bool whole = skip_string();
  keeping_ = false;
  return buffer_.substr(kept_, at_ - kept_ - (whole ? 1 : 0));
}

/// Skips a value of an object. Stops before the comma or brace that follows.
void TraceReader::skip_value(int first) {
  int depth = 0;
  for (int c = first; c != kEnd; c = take()) {
    if (c == '"') (void)skip_string();
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    const int next = peek();
    if (depth <= 0 && (next == ',' || next == '}')) return;
  }
}

/// In an object: moves into the array under "traceEvents".
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

/// Skips the rest of an object after its brace. Returns false if the file ends in it.
bool TraceReader::skip_object() {
  for (int depth = 1; depth > 0;) {
    while (at_ < filled_ && !kStops[static_cast<unsigned char>(buffer_[at_])]) ++at_;
    const int c = take();
    if (c == kEnd || (c == '"' && !skip_string())) return false;
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
    keeping_ = true;
    kept_ = at_ - 1;
    const bool whole = skip_object();
    keeping_ = false;
    if (whole) {
      const std::string_view text = std::string_view(buffer_).substr(kept_, at_ - kept_);
      return std::optional<RawEvent>({text, gone_ + kept_});
    }
    c = kEnd;
  }
  if (c != ']' && c != kEnd) return unexpected(c, "'{', ',' or ']'");
  place_ = Place::kAfter;
  truncated_ = c == kEnd;
  return std::optional<RawEvent>();
}

namespace {

constexpr std::uint64_t kBetween = std::uint64_t{16} << 20;

}  // namespace

std::uint64_t bytes_of(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

ProgressTeller::ProgressTeller(const std::vector<std::string>& paths, const ReadProgress& progress,
                               std::uint64_t times)
    : progress_(progress), times_(times) {
  for (const std::string& path : paths) total_ += bytes_of(path);
}

void ProgressTeller::tell(std::uint64_t bytes) {
  const std::uint64_t done = (ended_ + bytes) / times_;
  const bool ends = done >= total_ && told_ < total_;
  if (!progress_ || (done < told_ + kBetween && !ends)) return;
  told_ = done;
  progress_(done, total_);
}

void ProgressTeller::end(std::uint64_t bytes) {
  tell(bytes);
  ended_ += bytes;
}

}  // namespace ronde
