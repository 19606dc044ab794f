#include "timeline/reading/event_parser.h"

#include <doctest/doctest.h>

#include <string>

#include "timeline/reading/trace_reader.h"

namespace ronde::report {
namespace {

/// Parses one event; its texts live as long as this.
class Parsed {
 public:
  explicit Parsed(const std::string& text) : text_(text + std::string(TraceReader::kPadding, ' ')) {
    auto event = parser_.parse(std::string_view(text_).substr(0, text.size()));
    REQUIRE(event.ok());
    event_ = *event;
  }
  const TraceEvent* operator->() const { return &event_; }

 private:
  std::string text_;
  EventParser parser_;
  TraceEvent event_;
};

}  // namespace

TEST_CASE("event parser: an event says by ids what it is of, whatever its name") {
  const Parsed event(
      R"({"ph":"B","name":"anything","args":{"collective":"reduce_scatter","bundle":7,)"
      R"("algorithm":"ring","backend":"tcp"}})");
  CHECK(event->collective == Collective::kReduceScatter);
  CHECK(event->bundle == 7);
  CHECK(event->algorithm == "ring");
  CHECK(event->backend == "tcp");
  CHECK_FALSE(event->submits());
}

TEST_CASE("event parser: a negotiation submits, and the work after it does not") {
  CHECK(
      Parsed(R"({"ph":"B","name":"NEGOTIATE_REDUCE","args":{"collective":"reduce"}})")->submits());
  CHECK_FALSE(Parsed(R"({"ph":"B","name":"REDUCE","args":{"collective":"reduce"}})")->submits());
  CHECK_FALSE(Parsed(R"({"ph":"E","args":{"collective":"reduce"}})")->submits());
}

TEST_CASE("event parser: events of older traces are known by their names") {
  const Parsed event(R"({"ph":"B","name":"NEGOTIATE_REDUCESCATTER"})");
  CHECK(event->collective == Collective::kReduceScatter);
  CHECK(event->submits());
  CHECK(Parsed(R"({"ph":"B","name":"ALLREDUCE"})")->collective == Collective::kAllreduce);
  CHECK_FALSE(Parsed(R"({"ph":"B","name":"PACK"})")->collective);
}

TEST_CASE("event parser: a collective that this version does not know is none") {
  CHECK_FALSE(Parsed(R"({"ph":"B","name":"SCAN","args":{"collective":"scan"}})")->collective);
}

}  // namespace ronde::report
