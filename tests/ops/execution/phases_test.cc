#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ops/communicator/bundle_tracer.h"

namespace ronde {
namespace {

class Lines final : public EventSink {
 public:
  void begin(std::string_view lane, std::string_view event, const EventArgs&) override {
    texts.push_back("begin " + std::string(lane) + " " + std::string(event));
  }
  void end(std::string_view lane, const EventArgs&) override {
    texts.push_back("end " + std::string(lane));
  }
  void span(std::string_view, std::string_view, TimeSpan, const EventArgs&) override {}
  void instant(std::string_view, std::string_view) override {}
  void counter(std::string_view, double) override {}

  std::vector<std::string> texts;
};

}  // namespace

TEST_CASE("phases: each begins and ends on the track, and packing is added up") {
  Lines lines;
  const PhaseTracks tracks("");
  Phases phases(lines, tracks, 1000);
  {
    const Phase pack(&phases.observer(), kPackPhase);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const std::int64_t packed_ns = phases.pack_ns();
  CHECK(packed_ns >= 2'000'000);
  {
    const Phase ring(&phases.observer(), "ring");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(phases.pack_ns() == packed_ns);
  CHECK(lines.texts == std::vector<std::string>{"begin phases PACK", "end phases",
                                                "begin phases ring", "end phases"});
}

TEST_CASE("phases: a second thread of a collective has a track of its own, in each set") {
  Lines lines;
  const PhaseTracks tracks("process set 3");
  Phases phases(lines, tracks, 1000);
  const Phase own(&phases.observer(), "reduce");
  const Phase beside(&phases.observer().beside(), "wire");
  CHECK(lines.texts ==
        std::vector<std::string>{"begin phases of process set 3 reduce",
                                 "begin phases between hosts of process set 3 wire"});
}

}  // namespace ronde
