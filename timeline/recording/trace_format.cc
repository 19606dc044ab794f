#include "timeline/recording/trace_format.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "core/base/json.h"

namespace ronde {
namespace {

constexpr std::size_t kMostQuoted = 4096;

void append_number(std::string& out, std::uint64_t value) {
  const fmt::format_int digits(value);
  out.append(digits.data(), digits.size());
}

}  // namespace

void append_micros(std::string& out, std::int64_t ns) {
  if (ns < 0) out += '-';
  const auto all = static_cast<std::uint64_t>(std::abs(ns));
  append_number(out, all / 1000);
  out += '.';
  out += static_cast<char>('0' + all % 1000 / 100);
  out += static_cast<char>('0' + all % 100 / 10);
  out += static_cast<char>('0' + all % 10);
}

std::string json_text(std::string_view text) { return print_json(Json(text)); }

int TrackNumbers::of(std::string_view name) {
  const MutexLock lock(mutex_);
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  const int number = static_cast<int>(numbers_.size()) + 1;
  numbers_.emplace(name, number);
  return number;
}

const std::string& QuotedTexts::of(std::string_view text) {
  if (const auto known = known_.find(text); known != known_.end()) return known->second;
  if (known_.size() > kMostQuoted) known_.clear();
  return known_.emplace(text, json_text(text)).first->second;
}

void ArgsWriter::begin(std::string_view name) {
  members_ += members_.empty() ? "\"" : ",\"";
  members_.append(name).append("\":");
}

void ArgsWriter::operator()(std::string_view name, std::uint64_t value) {
  if (value == 0) return;
  begin(name);
  append_number(members_, value);
}

void ArgsWriter::operator()(std::string_view name, int value) {
  (*this)(name, static_cast<std::uint64_t>(value));
}

void ArgsWriter::operator()(std::string_view name, std::int64_t time) {
  if (time == 0) return;
  begin(name);
  append_micros(members_, time);
}

void ArgsWriter::operator()(std::string_view name, std::string_view text) {
  if (text.empty()) return;
  begin(name);
  members_ += quoted_.of(text);
}

void ArgsWriter::operator()(std::string_view name, const std::optional<Collective>& collective) {
  if (collective) (*this)(name, to_string(*collective));
}

void ArgsWriter::value(double value) {
  begin("value");
  members_ += std::isfinite(value) ? fmt::format("{}", value) : "null";
}

TraceFormatter::Track& TraceFormatter::track_of(std::string& out, std::string_view name) {
  if (const auto known = tracks_.find(name); known != tracks_.end()) return known->second;
  Track& track = tracks_[std::string(name)];
  track.id = numbers_->of(name);
  append_name(out, track, name);
  return track;
}

void TraceFormatter::append_name(std::string& out, const Track& track,
                                 std::string_view name) const {
  out += fmt::format(
      ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{"
      "\"name\":{}}}}}",
      row_, track.id, json_text(name));
}

void TraceFormatter::append_tracks(std::string& out) const {
  for (const auto& [name, track] : tracks_) append_name(out, track, name);
}

void TraceFormatter::end_open_spans(std::string& out, std::int64_t time_ns) {
  for (auto& [name, track] : tracks_) {
    while (track.open_spans > 0) {
      append(out, {{.at_ns = time_ns}, EventKind::kEnd, name});
    }
  }
}

void TraceFormatter::append_pause(std::string& out, std::int64_t time_ns) {
  end_open_spans(out, time_ns);
  append_mark(out, kPauseMark, time_ns);
}

void TraceFormatter::append_epoch_end(std::string& out, std::int64_t time_ns) {
  append_mark(out, kEpochEndMark, time_ns);
  end_open_spans(out, time_ns);
}

void TraceFormatter::append(std::string& out, const Event& event) {
  if (event.kind == EventKind::kPause) return append_pause(out, event.at_ns);
  if (event.kind == EventKind::kResume) return append_mark(out, kResumeMark, event.at_ns);
  write_facts(event);
  if (event.kind == EventKind::kCounter) return append_line(out, event.kind, 0);
  if (event.tracks.empty()) return append_on(out, event.kind, event.track);
  for (const std::string_view track : event.tracks) append_on(out, event.kind, track);
}

/// Formats the part of a line after its track. It is the same for all tracks of an event.
void TraceFormatter::write_facts(const Event& event) {
  facts_ = ",\"ts\":";
  append_micros(facts_, event.at_ns - start_ns_);
  if (!event.name.empty()) facts_.append(",\"name\":").append(quoted_.of(event.name));
  if (event.kind == EventKind::kInstant) facts_ += ",\"s\":\"t\"";
  args_.clear();
  ArgsWriter args(args_, quoted_);
  if (event.kind == EventKind::kCounter) args.value(event.value);
  EventArgs::fields(event, args);
  if (!args_.empty()) facts_.append(",\"args\":{").append(args_).append("}");
  facts_ += '}';
}

void TraceFormatter::append_on(std::string& out, EventKind kind, std::string_view track_name) {
  Track& track = track_of(out, track_name);
  if (kind == EventKind::kEnd && track.open_spans == 0) return;
  if (kind == EventKind::kBegin) ++track.open_spans;
  if (kind == EventKind::kEnd) --track.open_spans;
  append_line(out, kind, track.id);
}

void TraceFormatter::append_line(std::string& out, EventKind kind, int track) const {
  out += ",\n{\"ph\":\"";
  out += static_cast<char>(kind);
  out += "\",\"pid\":";
  append_number(out, static_cast<std::uint64_t>(row_));
  out += ",\"tid\":";
  append_number(out, static_cast<std::uint64_t>(track));
  out += facts_;
}

void TraceFormatter::append_dropped(std::string& out, std::uint64_t dropped,
                                    std::int64_t time_ns) const {
  append_mark(out, fmt::format("{} events lost so far", dropped), time_ns,
              fmt::format(",\"args\":{{\"lost\":{}}}", dropped));
}

void TraceFormatter::append_mark(std::string& out, std::string_view text, std::int64_t time_ns,
                                 std::string_view args) const {
  out += fmt::format(
      ",\n{{\"ph\":\"i\",\"pid\":{},\"tid\":0,\"ts\":{:.3f},\"name\":\"{}\",\"s\":\"p\"{}}}", row_,
      static_cast<double>(time_ns - start_ns_) / 1000, text, args);
}

}  // namespace ronde
