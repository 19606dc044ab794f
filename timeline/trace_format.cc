#include "timeline/trace_format.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace ronde {
namespace {

constexpr std::size_t kMostQuoted = 4096;

/// Nanoseconds as microseconds with three decimals.
std::string micros(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

/// Adds one argument, with a comma where it is not the first.
template <typename Value>
void argument(std::string& args, const char* name, const Value& value) {
  fmt::format_to(std::back_inserter(args), "{}\"{}\":{}", args.empty() ? "" : ",", name, value);
}

}  // namespace

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const std::string& TraceFormatter::quoted(std::string_view text) {
  if (quoted_.size() > kMostQuoted) quoted_.clear();
  std::string& known = quoted_[std::string(text)];
  if (known.empty()) known = json_text(text);
  return known;
}

TraceFormatter::Lane& TraceFormatter::lane_of(std::string& out, std::string_view name) {
  Lane& lane = lanes_[std::string(name)];
  if (lane.id != 0) return lane;
  lane.id = static_cast<int>(lanes_.size());
  fmt::format_to(std::back_inserter(out),
                 ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{"
                 "\"name\":{}}}}}",
                 rank_, lane.id, json_text(name));
  return lane;
}

void TraceFormatter::append_args(std::string& out, const Event& event) {
  std::string args;
  if (event.kind == EventKind::kCounter) {
    argument(args, "value", std::isfinite(event.value) ? fmt::to_string(event.value) : "null");
  }
  if (event.bytes != 0) argument(args, "bytes", event.bytes);
  if (event.tensors != 0) argument(args, "tensors", event.tensors);
  if (event.bundle != 0) argument(args, "bundle", event.bundle);
  if (event.pack_ns != 0) argument(args, "pack_us", micros(event.pack_ns));
  if (!event.algorithm.empty()) argument(args, "algorithm", quoted(event.algorithm));
  if (!event.backend.empty()) argument(args, "backend", quoted(event.backend));
  if (!args.empty()) fmt::format_to(std::back_inserter(out), ",\"args\":{{{}}}", args);
}

void TraceFormatter::append(std::string& out, const Event& event) {
  const bool counter = event.kind == EventKind::kCounter;
  Lane* lane = counter ? nullptr : &lane_of(out, event.lane);
  if (event.kind == EventKind::kEnd && lane->open_spans-- == 0) {
    lane->open_spans = 0;
    return;
  }
  if (event.kind == EventKind::kBegin) ++lane->open_spans;
  fmt::format_to(std::back_inserter(out), ",\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{}",
                 static_cast<char>(event.kind), rank_, counter ? 0 : lane->id,
                 micros(event.time_ns - start_ns_));
  if (!event.name.empty()) {
    fmt::format_to(std::back_inserter(out), ",\"name\":{}", quoted(event.name));
  }
  if (event.kind == EventKind::kInstant) out += ",\"s\":\"t\"";
  append_args(out, event);
  out += '}';
}

void TraceFormatter::append_dropped(std::string& out, std::uint64_t dropped,
                                    std::int64_t time_ns) const {
  fmt::format_to(std::back_inserter(out),
                 ",\n{{\"ph\":\"i\",\"pid\":{},\"tid\":0,\"ts\":{},\"name\":\"{} events lost so "
                 "far\",\"s\":\"p\"}}",
                 rank_, micros(time_ns - start_ns_), dropped);
}

}  // namespace ronde
