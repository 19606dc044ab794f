// Sleeping and waking on a doorbell, and the losses that ranks of a host note.
#include "backends/net/control/host_segment.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace ronde::net {
namespace {

TEST_CASE("a wake-up before the wait ends it at once") {
  DoorbellWords words{};
  Doorbell bell(words);
  const auto ticket = bell.prepare(Sleeper::kCaller);
  bell.wake(Sleeper::kCaller);
  bell.wait(Sleeper::kCaller, ticket, kForever);
  CHECK(words.words[1].sleepers() == 0);
}

TEST_CASE("a ring wakes the sleeper that was named and no other") {
  DoorbellWords words{};
  Doorbell bell(words);
  const auto background = words.words[0].ticket();
  const auto ticket = bell.prepare(Sleeper::kCaller);
  bell.ring();
  CHECK(words.words[0].ticket() == background);
  CHECK(words.words[1].ticket() != ticket);
}

TEST_CASE("rings while the owner polls do nothing") {
  DoorbellWords words{};
  Doorbell bell(words);
  bell.prepare(Sleeper::kBackground);
  bell.mark_polling();  // the last look before sleeping
  CHECK(words.attention.load() != 0);
  bell.mark_polling();
  CHECK(words.attention.load() == 0);
  const auto before = words.words[0].ticket();
  bell.ring();
  CHECK(words.words[0].ticket() == before);
}

TEST_CASE("a wait ends at its deadline") {
  DoorbellWords words{};
  Doorbell bell(words);
  const auto ticket = bell.prepare(Sleeper::kBackground);
  const TimePoint deadline = now() + std::chrono::milliseconds(5);
  bell.wait(Sleeper::kBackground, ticket, deadline);
  CHECK(now() >= deadline);
}

/// Publishes and rings; the owner sleeps whenever it finds nothing. A lost wake-up hangs.
void count_to(std::uint32_t last) {
  DoorbellWords words{};
  std::atomic<std::uint32_t> published{0};
  std::thread peer([&] {
    Doorbell bell(words);
    for (std::uint32_t i = 1; i <= last; ++i) {
      published.store(i, std::memory_order_seq_cst);
      bell.ring();
      if (i % 7 == 0) std::this_thread::yield();
    }
  });
  Doorbell bell(words);
  while (published.load() < last) {
    bell.mark_polling();
    const auto seen = published.load();
    const auto ticket = bell.prepare(Sleeper::kCaller);
    if (published.load() == seen && seen < last) bell.wait(Sleeper::kCaller, ticket, kForever);
  }
  peer.join();
}

TEST_CASE("no ring between the last look and the sleep is lost") { count_to(50'000); }

using Losses = std::vector<LostRank>;

Losses read_all(LossReader& reader) {
  Losses losses;
  const bool any = reader.read([&](const LostRank& lost) { losses.push_back(lost); });
  CHECK(any == !losses.empty());
  CHECK_FALSE(reader.has_news());
  return losses;
}

/// For ranks 1 and 3 of 4.
std::unique_ptr<HostSegment> make_segment() {
  return HostSegment::map(HostSegment::make_memory(2, 4).value(), {1, 3}, 4).value();
}

TEST_CASE("ranks of a host have positions, the others none") {
  const auto segment = make_segment();
  CHECK(segment->size() == 2);
  CHECK(segment->job_size() == 4);
  CHECK(segment->rank(1) == 3);
  CHECK(segment->position(3) == 1);
  CHECK(segment->position(1) == 0);
  CHECK(segment->position(0) == -1);
}

TEST_CASE("a loss is read once by each reader, and the first reason is kept") {
  const auto segment = make_segment();
  LossReader one(*segment, 0);
  LossReader other(*segment, 1);
  CHECK_FALSE(one.has_news());
  CHECK(segment->note_loss({2, Loss::kFrozen, 3}));
  CHECK_FALSE(segment->note_loss({2, Loss::kLeft, 2}));
  segment->announce_losses();
  for (LossReader* reader : {&one, &other}) {
    CHECK(reader->has_news());
    CHECK(read_all(*reader) == Losses{{2, Loss::kFrozen, 3}});
    CHECK(read_all(*reader).empty());
  }
}

TEST_CASE("a rank of the host is lost after those whose loss it has noted") {
  const auto segment = make_segment();
  LossReader reader(*segment, 1);
  CHECK(segment->note_loss({2, Loss::kUnreachable, 1}));
  CHECK(segment->note_loss({1, Loss::kLeft, 1}));
  segment->announce_losses();
  CHECK(read_all(reader) == Losses{{2, Loss::kUnreachable, 1}, {1, Loss::kLeft, 1}});
}

}  // namespace
}  // namespace ronde::net
