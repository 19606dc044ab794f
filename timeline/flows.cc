#include "timeline/flows.h"

#include <fmt/format.h>

#include <iterator>

#include "timeline/trace_format.h"

namespace ronde {
namespace {

constexpr std::string_view kName = "bundle";

}  // namespace

bool is_flow(const report::TraceEvent& event) noexcept {
  return (event.phase == 's' || event.phase == 'f') && event.name == kName;
}

void Flows::append_end(std::string& out, char phase, std::int64_t rank, const Place& place) const {
  fmt::format_to(std::back_inserter(out),
                 ",\n{{\"ph\":\"{}\",\"bp\":\"e\",\"cat\":\"ronde\",\"name\":\"{}\",\"id\":{},"
                 "\"pid\":{},\"tid\":{},\"ts\":",
                 phase, kName, arrows_, rank, place.lane);
  append_micros(out, place.time_ns);
  out += '}';
}

void Flows::take(const report::TraceEvent& event, std::int64_t time_ns, std::string& out) {
  if (event.phase != 'B' || event.bundle == 0) return;
  if (first_ < 0) first_ = event.pid;
  const Place here{event.tid, time_ns};
  if (event.pid == first_) {
    bundles_.try_emplace(event.bundle, here);  // of a bundle in parts the first
    return;
  }
  const auto there = bundles_.find(event.bundle);
  if (there == bundles_.end() || there->second.joined == event.pid) return;
  there->second.joined = event.pid;
  ++arrows_;
  const bool earlier = time_ns < there->second.time_ns;
  const std::int64_t from = earlier ? event.pid : first_;
  const std::int64_t to = earlier ? first_ : event.pid;
  append_end(out, 's', from, earlier ? here : there->second);
  append_end(out, 'f', to, earlier ? there->second : here);
}

}  // namespace ronde
