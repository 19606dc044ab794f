#include "core/engine/records/operation_ring.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <thread>

namespace ronde {
namespace {

RecordTicket record(OperationRing& ring, const std::string& name, Code code = Code::kOk) {
  const RecordTicket ticket = ring.begin({.name = name, .kind = 0, .set = 0, .bytes = 4});
  ring.end(ticket, code, now());
  return ticket;
}

}  // namespace

TEST_CASE(
    "OperationRing: an operation is recorded with what is known of it, and when it got where") {
  OperationRing ring;
  const TimePoint before = now();
  const RecordTicket ticket =
      ring.begin({.name = "layer1/weight", .kind = 2, .set = 3, .bytes = 8});
  ring.reach(ticket, OperationStage::kAgreed, before + std::chrono::seconds(1));
  ring.reach(ticket, OperationStage::kStarted, before + std::chrono::seconds(2));
  REQUIRE(ring.pending().size() == 1);
  ring.end(ticket, Code::kTimeout, before + std::chrono::seconds(3));
  CHECK(ring.pending().empty());
  REQUIRE(ring.all().size() == 1);
  const OperationRecord record = ring.all().front();
  CHECK(record.name == "layer1/weight");
  CHECK(record.kind == "broadcast");
  CHECK(record.set == 3);
  CHECK(record.bytes == 8);
  CHECK(record.code == Code::kTimeout);
  CHECK(record.at(OperationStage::kSubmitted) >= before.time_since_epoch().count());
  CHECK(record.at(OperationStage::kDone) - record.at(OperationStage::kAgreed) == 2'000'000'000);
  CHECK(ring.last_finished().number == 0);  // it did not end well
  REQUIRE(ring.failed(record.at(OperationStage::kDone)).size() == 1);
  CHECK(ring.failed(record.at(OperationStage::kDone) + 1).empty());
}

TEST_CASE("OperationRing: it keeps the last few thousand, and what is pending for longer") {
  OperationRing ring;
  const RecordTicket stuck = ring.begin({.name = "stuck", .kind = 0, .set = 0, .bytes = 4});
  for (std::size_t i = 0; i < 3 * OperationRing::kSlots; ++i) record(ring, fmt::format("t{}", i));
  const auto all = ring.all();
  CHECK(all.size() == OperationRing::kSlots);
  REQUIRE(ring.pending().size() == 1);
  CHECK(ring.pending().front().number == stuck.number);
  CHECK(ring.pending().front().name == "stuck");
  CHECK(all.back().name == fmt::format("t{}", 3 * OperationRing::kSlots - 1));
  CHECK(ring.last_finished().name == all.back().name);
}

TEST_CASE("OperationRing: when more are pending than it holds, the oldest make room") {
  OperationRing ring;
  RecordTicket first;
  for (std::size_t i = 0; i < 2 * OperationRing::kSlots; ++i) {
    const RecordTicket ticket = ring.begin({.name = "t", .kind = 0, .set = 0, .bytes = 4});
    if (i == 0) first = ticket;
  }
  CHECK(ring.pending().size() == OperationRing::kSlots);
  ring.end(first, Code::kOk, now());  // overwritten: must not end another's record
  CHECK(ring.pending().size() == OperationRing::kSlots);
}

TEST_CASE("OperationRing: a reserved record keeps its owner's last operation, whatever others do") {
  OperationRing ring;
  const TimePoint when = now();
  const RecordTicket reserved = ring.reserve("group of ranks 0,1", -7);
  CHECK(ring.all().empty());  // nobody has begun anything
  const RecordTicket first = ring.begin_in(reserved, {.kind = 2, .bytes = 8, .call = 1}, when);
  ring.end(first, Code::kOk, when);
  const RecordTicket second = ring.begin_in(reserved, {.kind = 0, .bytes = 4, .call = 2}, when);
  for (std::size_t i = 0; i < 2 * OperationRing::kSlots; ++i) record(ring, "t");
  ring.end(first, Code::kTimeout, when);  // overwritten
  REQUIRE(ring.pending().size() == 1);
  const OperationRecord record = ring.pending().front();
  CHECK(record.number == second.number);
  CHECK(record.name == "group of ranks 0,1");
  CHECK(record.kind == "allreduce");
  CHECK(record.set == -7);
  CHECK(record.bytes == 4);
  CHECK(record.call == 2);
  CHECK(record.at(OperationStage::kSubmitted) == to_ns(when));
  ring.end(second, Code::kOk, when + std::chrono::seconds(1));
  ring.release(reserved);
  CHECK(ring.last_finished().call == 2);
  (void)ring.reserve("another", -8);
  CHECK(ring.last_finished().call == 0);
}

TEST_CASE("OperationRing: nothing is recorded while no record is free to be reserved") {
  OperationRing ring;
  std::vector<RecordTicket> reserved;
  for (std::size_t i = 0; i < OperationRing::kReserved; ++i)
    reserved.push_back(ring.reserve("g", -1));
  const RecordTicket none = ring.reserve("g", -1);
  CHECK(ring.begin_in(none, {.call = 1}, now()).number == 0);
  ring.release(none);
  CHECK(ring.all().empty());
  ring.release(reserved.back());
  CHECK(ring.begin_in(ring.reserve("g", -1), {.call = 1}, now()).number != 0);
}

TEST_CASE("OperationRing: long names are cut between characters") {
  OperationRing ring;
  record(ring, std::string(55, 'a') + "\xC3\xA4" + "b");
  CHECK(ring.all().front().name == std::string(55, 'a'));
}

TEST_CASE("OperationRing: many threads record while one reads") {
  OperationRing ring;
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) {
      for (const OperationRecord& record : ring.all()) {
        if (record.name.empty()) FAIL_CHECK("a record without its name");
      }
    }
  });
  constexpr int kWriters = 3;
  std::vector<std::thread> writers;
  writers.reserve(kWriters);
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&ring, w] {
      for (int i = 0; i < 20'000; ++i) record(ring, fmt::format("writer{}.{}", w, i % 10));
    });
  }
  for (std::thread& writer : writers) writer.join();
  over = true;
  reader.join();
  CHECK(ring.all().back().number == 60'000);
}

}  // namespace ronde
