#include "timeline/reading/event_parser.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>

#include "timeline/reading/trace_reader.h"

namespace ronde::report {
namespace {

using simdjson::dom::element;

std::int64_t ns_of_us(double us) { return std::llround(us * 1000); }

double number(const element& value) {
  const auto read = value.get_double();
  return read.error() == simdjson::SUCCESS ? read.value_unsafe() : 0;
}

std::int64_t integer(const element& value) {
  const auto read = value.get_int64();
  return read.error() == simdjson::SUCCESS ? read.value_unsafe() : 0;
}

std::uint64_t natural(const element& value) {
  const auto read = value.get_uint64();
  return read.error() == simdjson::SUCCESS ? read.value_unsafe() : 0;
}

std::string_view text(const element& value) {
  const auto read = value.get_string();
  return read.error() == simdjson::SUCCESS ? read.value_unsafe() : std::string_view();
}

std::optional<Collective> collective_named(std::string_view name) {
  const auto parsed = parse_collective(name);
  return parsed.ok() ? std::optional(*parsed) : std::nullopt;
}

/// The collective of an event without an id, by its name: early traces of Ronde 0.1.
std::optional<Collective> collective_of_event(std::string_view name) {
  for (const CollectiveTraits& row : kCollectives) {
    if (name == row.event() || name == row.negotiation) return row.value;
  }
  return std::nullopt;
}

void read(const element& value, std::uint64_t& field) { field = natural(value); }
void read(const element& value, int& field) { field = static_cast<int>(integer(value)); }
void read(const element& value, std::int64_t& field) { field = ns_of_us(number(value)); }
void read(const element& value, std::string_view& field) { field = text(value); }
void read(const element& value, std::optional<Collective>& field) {
  field = collective_named(text(value));
}

void take_argument(std::string_view key, const element& value, TraceEvent& event) {
  const auto take = [&](std::string_view name, auto& field) {
    if (key == name) read(value, field);
  };
  EventArgs::fields(event, take);
  LauncherFacts::fields(event, take);
  if (key == "value") event.value = number(value);
  if (key == "name") event.given_name = text(value);
  if (key == "arrived") event.arrived = integer(value);
  if (key == "lost") event.lost = natural(value);
}

void take_field(std::string_view key, const element& value, TraceEvent& event) {
  if (key == "ph" && !text(value).empty()) event.phase = text(value).front();
  if (key == "pid") event.pid = integer(value);
  if (key == "tid") event.tid = integer(value);
  if (key == "ts" && value.is_number()) {
    event.at_ns = ns_of_us(number(value));
    event.timed = true;
  }
  if (key == "name") event.name = text(value);
  if (key != "args" || !value.is_object()) return;
  const simdjson::dom::object arguments = value.get_object().value_unsafe();
  for (const auto [name, argument] : arguments) {
    take_argument(name, argument, event);
  }
}

}  // namespace

EventParser::EventParser() : parser_(std::make_unique<simdjson::dom::parser>()) {}
EventParser::~EventParser() = default;

Result<TraceEvent> EventParser::parse(std::string_view text) {
  static_assert(simdjson::SIMDJSON_PADDING <= TraceReader::kPadding);
  simdjson::dom::object fields;
  const auto parsed = parser_->parse(text.data(), text.size(), false);
  if (const auto error = parsed.get(fields); error != simdjson::SUCCESS) {
    return Status(Code::kInvalidArgument,
                  fmt::format("this event is not valid JSON ({})", simdjson::error_message(error)));
  }
  TraceEvent event;
  for (const auto [key, value] : fields) take_field(key, value, event);
  if (event.phase == 'B' && !event.collective) event.collective = collective_of_event(event.name);
  return event;
}

}  // namespace ronde::report
