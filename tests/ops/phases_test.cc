#include "ops/phases.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

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
  void instant(std::string_view, std::string_view) override {}
  void counter(std::string_view, double) override {}

  std::vector<std::string> texts;
};

}  // namespace

TEST_CASE("phases: each begins and ends in the lane, and packing is added up") {
  Lines lines;
  const std::string lane = Phases::lane_of(0);
  Phases phases(lines, lane);
  {
    const Phase pack(&phases, "PACK", true);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const std::int64_t packed_ns = phases.pack_ns();
  CHECK(packed_ns >= 2'000'000);
  {
    const Phase ring(&phases, "ring", false);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(phases.pack_ns() == packed_ns);
  CHECK(lines.texts == std::vector<std::string>{"begin phases PACK", "end phases",
                                                "begin phases ring", "end phases"});
  CHECK(Phases::lane_of(3) == "phases of set 3");
}

TEST_CASE("phases: while nothing is recorded there are none") {
  const Phase none(nullptr, "PACK", true);
}

}  // namespace ronde
