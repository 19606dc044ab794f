#include "ops/communicator/bundle_tracer.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace ronde {
namespace {

class Lines final : public EventSink {
 public:
  void begin(std::string_view track, std::string_view event, const EventArgs& args) override {
    texts.push_back("begin " + std::string(track) + " " + std::string(event) + " " +
                    std::string(args.algorithm) + " " + std::string(args.backend));
  }
  void end(std::string_view track, const EventArgs& args) override {
    texts.push_back("end " + std::string(track) + " " +
                    std::to_string(args.compression.wire_bytes));
  }
  void span(std::string_view, std::string_view, TimeSpan, const EventArgs&) override {}
  void instant(std::string_view, std::string_view) override {}
  void counter(std::string_view name, double value) override {
    texts.push_back(std::string(name) + " " + std::to_string(static_cast<int>(value)));
  }
  std::vector<std::string> texts;
};

using Texts = std::vector<std::string>;

Bundle two_tensors() {
  Bundle bundle;
  bundle.kind = Collective::kAllreduce;
  bundle.tensors.resize(2);
  bundle.tensors[0].name = "a";
  bundle.tensors[1].name = "b";
  return bundle;
}

}  // namespace

TEST_CASE("tracer: events enclose the work on each tensor's track, with the facts at its end") {
  Lines lines;
  EventSwitch events;
  events.set(&lines);
  BundleTracer tracer(&events, "");
  CompressionFacts facts;
  const Status status =
      tracer.trace(two_tensors(), {.bytes = 8, .algorithm = "ring", .path = "tcp", .ratio = 4.0},
                   facts, [&](PhaseObserver* phases) {
                     REQUIRE(phases != nullptr);
                     const Phase ring(phases, "ring");
                     facts.wire_bytes = 3;
                     return Status(Code::kAborted, "enough");
                   });
  CHECK(status.code() == Code::kAborted);
  CHECK(lines.texts == Texts{"begin a ALLREDUCE ring tcp", "begin b ALLREDUCE ring tcp",
                             "compression ratio 4", "begin phases ring  ", "end phases 0",
                             "end a 3", "end b 3"});
}

TEST_CASE("tracer: while nothing is recorded the work runs without an observer") {
  const EventSwitch off;
  for (const EventSwitch* events : {static_cast<const EventSwitch*>(nullptr), &off}) {
    BundleTracer tracer(events, "");
    CHECK(tracer.sink() == nullptr);
    bool observed = true;
    CHECK(tracer
              .trace(two_tensors(), {}, {},
                     [&](PhaseObserver* phases) {
                       observed = phases != nullptr;
                       return Status();
                     })
              .ok());
    CHECK_FALSE(observed);
  }
}

}  // namespace ronde
