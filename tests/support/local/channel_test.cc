// The control channel of a local job: order, wake-ups, death and leaving.
#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "core/base/bytes.h"
#include "tests/support/local/factory.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

constexpr auto kSoon = std::chrono::milliseconds(20);

/// Writes down what it is told: "1:text", "lost 1: reason", "left 1: reason".
class Notes final : public ChannelSink {
 public:
  std::vector<std::string> lines;
  std::vector<Status> reasons;

  void on_frame(int from, std::span<const std::byte> frame) override {
    lines.push_back(std::to_string(from) + ":" + std::string(as_text(frame)));
  }
  void on_peer_lost(int rank, const Status& reason) override { end("lost ", rank, reason); }
  void on_peer_left(int rank, const Status& reason) override { end("left ", rank, reason); }

 private:
  void end(const char* how, int rank, const Status& reason) {
    lines.push_back(how + std::to_string(rank) + ": " + reason.message());
    reasons.push_back(reason);
  }
};

struct Pair {
  std::shared_ptr<LocalHub> hub = create_local_hub(2);
  std::unique_ptr<ControlChannel> a = create_local_channel(hub, 0);
  std::unique_ptr<ControlChannel> b = create_local_channel(hub, 1);
  Notes notes;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("local channel: hosts are numbered by their lowest rank") {
  const auto hub = create_local_hub(4, {7, 3, 7, 3});
  const auto channel = create_local_channel(hub, 2);
  CHECK(channel->topology().rank == 2);
  CHECK(channel->topology().size() == 4);
  CHECK(channel->topology().host_count() == 2);
  CHECK(channel->topology().peers[0].host_index == 0);
  CHECK(channel->topology().host_ranks(1) == std::vector<int>{1, 3});
}

TEST_CASE("local channel: frames of one sender come in order, empty ones too") {
  Pair job;
  for (const char* text : {"one", "", "three"}) CHECK(job.a->send(1, as_bytes(text)).ok());
  CHECK(job.b->poll(job.notes));
  CHECK(job.notes.lines == Lines{"0:one", "0:", "0:three"});
  CHECK_FALSE(job.b->poll(job.notes));
}

TEST_CASE("local channel: bad destinations and sizes are refused") {
  Pair job;
  CHECK(job.a->send(0, {}).code() == Code::kInvalidArgument);
  CHECK(job.a->send(2, {}).code() == Code::kInvalidArgument);
  CHECK(job.a->send(-1, {}).code() == Code::kInvalidArgument);
  const std::vector<std::byte> largest(kMaxFrameBytes);
  const std::vector<std::byte> too_large(kMaxFrameBytes + 1);
  CHECK(job.a->send(1, largest).ok());
  CHECK(job.a->send(1, too_large).code() == Code::kInvalidArgument);
}

TEST_CASE("local channel: a frame wakes the sleeper only after kick") {
  Pair job;
  const std::uint32_t ticket = job.b->prepare_wait(Sleeper::kCaller);
  CHECK_FALSE(job.b->poll(job.notes));
  CHECK(job.a->send(1, as_bytes("x")).ok());
  CHECK(job.b->prepare_wait(Sleeper::kCaller) == ticket);  // nobody has woken it
  job.a->kick();
  job.b->wait(Sleeper::kCaller, ticket, kForever);  // returns: the ticket is old
  CHECK(job.b->poll(job.notes));
  CHECK(job.notes.lines == Lines{"0:x"});
}

TEST_CASE("local channel: kick wakes the sleeper named last, not the other") {
  Pair job;
  const std::uint32_t caller = job.b->prepare_wait(Sleeper::kCaller);
  const std::uint32_t background = job.b->prepare_wait(Sleeper::kBackground);
  CHECK(job.a->send(1, as_bytes("x")).ok());
  job.a->kick();
  CHECK(job.b->prepare_wait(Sleeper::kCaller) == caller);
  CHECK(job.b->prepare_wait(Sleeper::kBackground) != background);
}

TEST_CASE("local channel: kick costs a polling peer nothing") {
  Pair job;
  const std::uint32_t ticket = job.b->prepare_wait(Sleeper::kBackground);
  job.b->poll(job.notes);  // the last look before sleeping
  job.b->poll(job.notes);  // it polls again
  CHECK(job.a->send(1, as_bytes("x")).ok());
  job.a->kick();
  CHECK(job.b->prepare_wait(Sleeper::kBackground) == ticket);
}

TEST_CASE("local channel: wake ends the wait of the one it names") {
  Pair job;
  const std::uint32_t ticket = job.a->prepare_wait(Sleeper::kBackground);
  std::thread waker([&] { job.a->wake(Sleeper::kBackground); });
  job.a->wait(Sleeper::kBackground, ticket, kForever);
  waker.join();
  CHECK(job.a->prepare_wait(Sleeper::kBackground) != ticket);
}

TEST_CASE("local channel: a wait ends at its deadline") {
  Pair job;
  const TimePoint deadline = now() + kSoon;
  const std::uint32_t ticket = job.a->prepare_wait(Sleeper::kCaller);
  while (now() < deadline) job.a->wait(Sleeper::kCaller, ticket, deadline);
  CHECK_FALSE(job.a->poll(job.notes));
}

TEST_CASE("local channel: peers learn of a death once, after its last frames") {
  Pair job;
  const std::uint32_t ticket = job.b->prepare_wait(Sleeper::kCaller);
  CHECK(job.a->send(1, as_bytes("last words")).ok());
  job.hub->kill(0);
  job.hub->kill(0);
  job.b->wait(Sleeper::kCaller, ticket, kForever);  // the death has woken it
  CHECK(job.b->poll(job.notes));
  CHECK(job.notes.lines == Lines{"0:last words", "lost 0: rank 0 died"});
  REQUIRE(job.notes.reasons.size() == 1);
  CHECK(job.notes.reasons[0].code() == Code::kRankFailure);
  CHECK(job.notes.reasons[0].failed_rank()->rank == 0);
  CHECK(job.b->send(0, {}).code() == Code::kRankFailure);
}

TEST_CASE("local channel: a killed rank is cut off from all peers") {
  Pair job;
  job.hub->kill(0);
  CHECK(job.a->send(1, as_bytes("from beyond")).code() == Code::kRankFailure);
  CHECK(job.a->poll(job.notes));
  CHECK(job.notes.lines == Lines{"lost 1: rank 0 died"});
}

TEST_CASE("local channel: closing is leaving, not dying") {
  Pair job;
  CHECK(job.a->send(1, as_bytes("bye")).ok());
  job.a->close();
  job.a->close();
  job.hub->kill(0);  // too late to matter
  job.b->poll(job.notes);
  CHECK(job.notes.lines == Lines{"0:bye", "left 0: rank 0 has left the job"});
  CHECK(job.b->send(0, {}).code() == Code::kRankFailure);
  CHECK(job.a->send(1, {}).code() == Code::kAborted);
  job.a->wait(Sleeper::kCaller, job.a->prepare_wait(Sleeper::kCaller), kForever);  // returns
}

TEST_CASE("local channel: destroying a channel closes it") {
  Pair job;
  job.a.reset();
  job.b->poll(job.notes);
  CHECK(job.notes.lines == Lines{"left 0: rank 0 has left the job"});
}

TEST_CASE("local channel: frames and sleeps of many ranks at once lose nothing") {
  constexpr int kRanks = 5;
  constexpr int kFrames = 200;
  const auto hub = create_local_hub(kRanks);
  std::vector<std::unique_ptr<ControlChannel>> channels;
  for (int r = 0; r < kRanks; ++r) channels.push_back(create_local_channel(hub, r));
  test::run_ranks(kRanks, [&](int rank) {
    ControlChannel& channel = *channels[static_cast<std::size_t>(rank)];
    Notes notes;
    for (int i = 0; i < kFrames; ++i) {
      for (int to = 0; to < kRanks; ++to) {
        if (to != rank) CHECK(channel.send(to, as_bytes(std::to_string(i))).ok());
      }
      channel.poll(notes);
      channel.kick();
    }
    while (notes.lines.size() < std::size_t{kFrames} * (kRanks - 1)) {
      const std::uint32_t ticket = channel.prepare_wait(Sleeper::kCaller);
      if (!channel.poll(notes)) channel.wait(Sleeper::kCaller, ticket, kForever);
    }
    CHECK(notes.reasons.empty());
  });
}

}  // namespace ronde
