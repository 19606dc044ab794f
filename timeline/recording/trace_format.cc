#include "timeline/recording/trace_format.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>

namespace ronde {
namespace {

constexpr std::size_t kMostQuoted = 4096;

void append_number(std::string& out, std::uint64_t value) {
  const fmt::format_int digits(value);
  out.append(digits.data(), digits.size());
}

/// Begins one argument: a comma or the opening brace, then its name.
void begin_argument(std::string& out, bool& any, std::string_view name) {
  out += any ? ",\"" : ",\"args\":{\"";
  any = true;
  out.append(name).append("\":");
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

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int TrackNumbers::of(std::string_view name) {
  const MutexLock lock(mutex_);
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  const int number = static_cast<int>(numbers_.size()) + 1;
  numbers_.emplace(name, number);
  return number;
}

const std::string& TraceFormatter::quoted(std::string_view text) {
  if (const auto known = quoted_.find(text); known != quoted_.end()) return known->second;
  if (quoted_.size() > kMostQuoted) quoted_.clear();
  return quoted_.emplace(text, json_text(text)).first->second;
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
  fmt::format_to(std::back_inserter(out),
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
      append(out, {.kind = EventKind::kEnd, .time_ns = time_ns, .track = name});
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

void TraceFormatter::append_args(std::string& out, const Event& event) {
  bool any = false;
  const auto number = [&](std::string_view name, std::uint64_t value) {
    if (value == 0) return;
    begin_argument(out, any, name);
    append_number(out, value);
  };
  const auto text = [&](std::string_view name, std::string_view value) {
    if (value.empty()) return;
    begin_argument(out, any, name);
    out += quoted(value);
  };
  if (event.kind == EventKind::kCounter) {
    begin_argument(out, any, "value");
    out += std::isfinite(event.value) ? fmt::to_string(event.value) : "null";
  }
  if (event.collective) text("collective", to_string(*event.collective));
  number("bytes", event.bytes);
  number("tensors", static_cast<std::uint64_t>(event.tensors));
  number("bundle", event.bundle);
  number("partition", static_cast<std::uint64_t>(event.partition));
  const auto micros = [&](std::string_view name, std::int64_t ns) {
    if (ns == 0) return;
    begin_argument(out, any, name);
    append_micros(out, ns);
  };
  micros("pack_us", event.pack_ns);
  number("wire_bytes", event.compression.wire_bytes);
  micros("compress_us", event.compression.compress_ns);
  micros("wire_us", event.compression.wire_ns);
  micros("decompress_us", event.compression.decompress_ns);
  text("algorithm", event.algorithm);
  text("backend", event.backend);
  if (any) out += '}';
}

void TraceFormatter::append(std::string& out, const Event& event) {
  if (event.kind == EventKind::kPause) return append_pause(out, event.time_ns);
  if (event.kind == EventKind::kResume) return append_mark(out, kResumeMark, event.time_ns);
  write_facts(event);
  if (event.kind == EventKind::kCounter) return append_line(out, event.kind, 0);
  if (event.tracks.empty()) return append_on(out, event.kind, event.track);
  for (const std::string_view track : event.tracks) append_on(out, event.kind, track);
}

/// Formats the part of a line after its track. It is the same for all tracks of an event.
void TraceFormatter::write_facts(const Event& event) {
  facts_ = ",\"ts\":";
  append_micros(facts_, clock_.of(event.time_ns) - start_ns_);
  if (!event.name.empty()) facts_.append(",\"name\":").append(quoted(event.name));
  if (event.kind == EventKind::kInstant) facts_ += ",\"s\":\"t\"";
  append_args(facts_, event);
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
  fmt::format_to(
      std::back_inserter(out),
      ",\n{{\"ph\":\"i\",\"pid\":{},\"tid\":0,\"ts\":{:.3f},\"name\":\"{}\",\"s\":\"p\"{}}}", row_,
      static_cast<double>(clock_.of(time_ns) - start_ns_) / 1000, text, args);
}

}  // namespace ronde
