#include "core/engine/records/flight_ring.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <thread>

namespace ronde {
namespace {

FlightTicket fly(FlightRing& ring, const std::string& name, Code code = Code::kOk) {
  const FlightTicket ticket = ring.begin({.name = name, .kind = 0, .set = 0, .bytes = 4});
  ring.end(ticket, code, now());
  return ticket;
}

}  // namespace

TEST_CASE("FlightRing: an operation is recorded with what is known of it, and when it got where") {
  FlightRing ring;
  const TimePoint before = now();
  const FlightTicket ticket =
      ring.begin({.name = "layer1/weight", .kind = 2, .set = 3, .bytes = 8});
  ring.reach(ticket, FlightStage::kAgreed, before + std::chrono::seconds(1));
  ring.reach(ticket, FlightStage::kStarted, before + std::chrono::seconds(2));
  REQUIRE(ring.pending().size() == 1);
  ring.end(ticket, Code::kTimeout, before + std::chrono::seconds(3));
  CHECK(ring.pending().empty());
  REQUIRE(ring.all().size() == 1);
  const Flight flight = ring.all().front();
  CHECK(flight.name == "layer1/weight");
  CHECK(flight.kind == "broadcast");
  CHECK(flight.set == 3);
  CHECK(flight.bytes == 8);
  CHECK(flight.code == Code::kTimeout);
  CHECK(flight.at(FlightStage::kSubmitted) >= before.time_since_epoch().count());
  CHECK(flight.at(FlightStage::kDone) - flight.at(FlightStage::kAgreed) == 2'000'000'000);
  CHECK(ring.last_finished().number == 0);  // it did not end well
  REQUIRE(ring.failed(flight.at(FlightStage::kDone)).size() == 1);
  CHECK(ring.failed(flight.at(FlightStage::kDone) + 1).empty());
}

TEST_CASE("FlightRing: it keeps the last few thousand, and what is pending for longer") {
  FlightRing ring;
  const FlightTicket stuck = ring.begin({.name = "stuck", .kind = 0, .set = 0, .bytes = 4});
  for (std::size_t i = 0; i < 3 * FlightRing::kSlots; ++i) fly(ring, fmt::format("t{}", i));
  const auto all = ring.all();
  CHECK(all.size() == FlightRing::kSlots);
  REQUIRE(ring.pending().size() == 1);
  CHECK(ring.pending().front().number == stuck.number);
  CHECK(ring.pending().front().name == "stuck");
  CHECK(all.back().name == fmt::format("t{}", 3 * FlightRing::kSlots - 1));
  CHECK(ring.last_finished().name == all.back().name);
}

TEST_CASE("FlightRing: when more are pending than it holds, the oldest make room") {
  FlightRing ring;
  FlightTicket first;
  for (std::size_t i = 0; i < 2 * FlightRing::kSlots; ++i) {
    const FlightTicket ticket = ring.begin({.name = "t", .kind = 0, .set = 0, .bytes = 4});
    if (i == 0) first = ticket;
  }
  CHECK(ring.pending().size() == FlightRing::kSlots);
  ring.end(first, Code::kOk, now());  // overwritten: must not end another's record
  CHECK(ring.pending().size() == FlightRing::kSlots);
}

TEST_CASE("FlightRing: a seat keeps what its owner did last, whatever others do meanwhile") {
  FlightRing ring;
  const TimePoint when = now();
  const FlightTicket seat = ring.take_seat("group of ranks 0,1", -7);
  CHECK(ring.all().empty());  // nobody has begun anything
  const FlightTicket first = ring.begin_in(seat, {.kind = 2, .bytes = 8, .call = 1}, when);
  ring.end(first, Code::kOk, when);
  const FlightTicket second = ring.begin_in(seat, {.kind = 0, .bytes = 4, .call = 2}, when);
  for (std::size_t i = 0; i < 2 * FlightRing::kSlots; ++i) fly(ring, "t");
  ring.end(first, Code::kTimeout, when);  // overwritten
  REQUIRE(ring.pending().size() == 1);
  const Flight flight = ring.pending().front();
  CHECK(flight.number == second.number);
  CHECK(flight.name == "group of ranks 0,1");
  CHECK(flight.kind == "allreduce");
  CHECK(flight.set == -7);
  CHECK(flight.bytes == 4);
  CHECK(flight.call == 2);
  CHECK(flight.at(FlightStage::kSubmitted) == to_ns(when));
  ring.end(second, Code::kOk, when + std::chrono::seconds(1));
  ring.leave_seat(seat);
  CHECK(ring.last_finished().call == 2);
  (void)ring.take_seat("another", -8);
  CHECK(ring.last_finished().call == 0);
}

TEST_CASE("FlightRing: who finds no seat is not recorded, until one is free") {
  FlightRing ring;
  std::vector<FlightTicket> seats;
  for (std::size_t i = 0; i < FlightRing::kSeats; ++i) seats.push_back(ring.take_seat("g", -1));
  const FlightTicket none = ring.take_seat("g", -1);
  CHECK(ring.begin_in(none, {.call = 1}, now()).number == 0);
  ring.leave_seat(none);
  CHECK(ring.all().empty());
  ring.leave_seat(seats.back());
  CHECK(ring.begin_in(ring.take_seat("g", -1), {.call = 1}, now()).number != 0);
}

TEST_CASE("FlightRing: long names are cut between characters") {
  FlightRing ring;
  fly(ring, std::string(55, 'a') + "\xC3\xA4" + "b");
  CHECK(ring.all().front().name == std::string(55, 'a'));
}

TEST_CASE("FlightRing: many threads record while one reads") {
  FlightRing ring;
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) {
      for (const Flight& flight : ring.all()) {
        if (flight.name.empty()) FAIL_CHECK("a record without its name");
      }
    }
  });
  constexpr int kWriters = 3;
  std::vector<std::thread> writers;
  writers.reserve(kWriters);
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&ring, w] {
      for (int i = 0; i < 20'000; ++i) fly(ring, fmt::format("writer{}.{}", w, i % 10));
    });
  }
  for (std::thread& writer : writers) writer.join();
  over = true;
  reader.join();
  CHECK(ring.all().back().number == 60'000);
}

}  // namespace ronde
