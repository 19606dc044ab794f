// Keeps the reported spans of a device's streams for a test.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ports/event_sink.h"

namespace ronde::test {

/// Keeps the spans of the device's track.
class DeviceSpans final : public EventSink {
 public:
  struct Told {
    std::string name;
    TimeSpan times;
    std::uint64_t bundle = 0;
  };
  void begin(std::string_view, std::string_view, const EventArgs&) override {}
  void end(std::string_view, const EventArgs&) override {}
  void instant(std::string_view, std::string_view) override {}
  void counter(std::string_view, double) override {}
  void span(std::string_view lane, std::string_view event, TimeSpan times,
            const EventArgs& args) override {
    CHECK(lane == "gpu");
    told.push_back({std::string(event), times, args.bundle});
  }

  std::vector<Told> told;
};

}  // namespace ronde::test
