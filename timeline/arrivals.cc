#include "timeline/arrivals.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

namespace ronde {

bool is_arrival(const report::TraceEvent& event) noexcept {
  return event.phase == 'i' && event.arrived.has_value();
}

void Arrivals::name_lane(const report::TraceEvent& event) {
  if (first_ < 0) first_ = event.pid;
  if (event.pid == first_) {
    first_lanes_[std::string(event.given_name)] = event.tid;
    return;
  }
  if (event.pid != current_) {
    current_ = event.pid;
    lanes_.clear();
  }
  const auto found = first_lanes_.find(std::string(event.given_name));
  if (found != first_lanes_.end()) lanes_[event.tid] = found->second;
}

void Arrivals::take(const report::TraceEvent& event, std::int64_t time_ns, TraceOutput& output) {
  if (event.phase == 'M') {
    if (event.name == "thread_name") name_lane(event);
    return;
  }
  if (event.pid != current_ || !event.submits()) return;
  const auto lane = lanes_.find(event.tid);
  if (lane == lanes_.end()) return;
  name_ = fmt::format("rank {} ready", event.pid);
  text_.clear();
  fmt::format_to(std::back_inserter(text_),
                 "{{\"ph\":\"i\",\"pid\":{},\"tid\":{},\"ts\":0,\"name\":\"{}\",\"s\":\"t\","
                 "\"args\":{{\"arrived\":{}}}}}",
                 first_, lane->second, name_, event.pid);
  const report::TraceEvent mark{.phase = 'i',
                                .pid = first_,
                                .tid = lane->second,
                                .time_ns = time_ns,
                                .timed = true,
                                .name = name_,
                                .arrived = event.pid};
  output.add({text_, mark, time_ns});
}

}  // namespace ronde
