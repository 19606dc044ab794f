#include "core/engine/peers/key_value_exchange.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <string>

#include "tests/core/engine/fake_channel.h"

namespace ronde {
namespace {

constexpr ExchangeId kId{9, 3};

/// One rank's exchanges over a channel that keeps the frames.
struct Peer {
  Peer(int rank, const std::vector<int>& hosts) : channel(rank, static_cast<int>(hosts.size())) {
    channel.set_hosts(hosts);
  }
  ~Peer() { CHECK_FALSE(abort.aborted()); }  // all frames could be sent
  test::FakeChannel channel;
  AbortToken abort;
  FrameSender sender{channel, abort};
  KeyValueExchange exchange{sender};
};

/// Ranks on some hosts. Their frames arrive in a random order, but each sender's in its own.
struct Job {
  explicit Job(const std::vector<int>& hosts) {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      peers.push_back(std::make_unique<Peer>(static_cast<int>(rank), hosts));
      everyone.push_back(static_cast<int>(rank));
    }
    sent.resize(peers.size());
  }
  void begin(int rank) { at(rank).begin(kId, everyone, "value of " + std::to_string(rank)); }
  KeyValueExchange& at(int rank) { return peers[static_cast<std::size_t>(rank)]->exchange; }

  /// Carries frames until none is under way.
  void carry() {
    while (true) {
      collect();
      std::vector<std::deque<Frame>*> busy;
      for (auto& [pair, frames] : under_way) {
        if (!frames.empty()) busy.push_back(&frames);
      }
      if (busy.empty()) return;
      std::deque<Frame>& from = *busy[random() % busy.size()];
      const Frame frame = std::move(from.front());
      from.pop_front();
      const auto header = read_header(frame.bytes);
      REQUIRE(header.has_value());
      const auto payload = std::span<const std::byte>(frame.bytes).subspan(sizeof(FrameHeader));
      const Status status = at(frame.to).on_frame(frame.from, header->id, payload);
      INFO(status.to_string());
      REQUIRE(status.ok());
    }
  }

  struct Frame {
    int from = 0;
    int to = 0;
    std::vector<std::byte> bytes;
  };
  void collect() {
    for (std::size_t rank = 0; rank < peers.size(); ++rank) {
      for (auto& frame : std::exchange(peers[rank]->channel.sent, {})) {
        const int from = static_cast<int>(rank);
        under_way[{from, frame.rank}].push_back({from, frame.rank, std::move(frame.bytes)});
        ++sent[rank];
      }
    }
  }

  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<int> everyone;
  std::map<std::pair<int, int>, std::deque<Frame>> under_way;
  std::vector<int> sent;  // frames by rank
  std::mt19937 random{7};
};

/// So many hosts with so many ranks each.
std::vector<int> hosts_of(int hosts, int ranks) {
  std::vector<int> all;
  for (int rank = 0; rank < hosts * ranks; ++rank) all.push_back(rank / ranks);
  return all;
}

std::string text_of(const std::optional<KeyValueExchange::Outcome>& outcome) {
  return outcome ? outcome->status().message() : "none";
}

}  // namespace

TEST_CASE("KeyValueExchange: all ranks of 64 hosts get all values, by few frames each") {
  Job job(hosts_of(64, 8));
  std::vector<int> order = job.everyone;
  std::shuffle(order.begin(), order.end(), job.random);
  for (const int rank : order) {
    job.begin(rank);
    if (rank % 3 == 0) job.carry();  // values come before their receiver's own
  }
  job.carry();
  for (const int rank : job.everyone) {
    const auto outcome = job.at(rank).take(kId);
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->ok());
    CHECK(outcome->value().size() == 512);
    CHECK(outcome->value()[77] == "value of 77");
    CHECK_FALSE(job.at(rank).take(kId).has_value());
  }
  // To its parent, eight children on other hosts, seven here.
  CHECK(*std::max_element(job.sent.begin(), job.sent.end()) == 16);
}

TEST_CASE("KeyValueExchange: rounds and keys do not mix") {
  Job job({0, 0});
  job.at(0).begin({1, 0}, {0, 1}, "a");
  job.at(1).begin({1, 1}, {0, 1}, "later");
  job.at(1).begin({2, 0}, {0, 1}, "other");
  job.carry();
  CHECK_FALSE(job.at(0).take({1, 0}).has_value());
  CHECK_FALSE(job.at(0).take({2, 0}).has_value());
  job.at(0).begin({1, 1}, {0, 1}, "b");
  job.carry();
  CHECK(job.at(0).take({1, 1})->value() == std::vector<std::string>{"b", "later"});
}

TEST_CASE("KeyValueExchange: one rank alone has its value at once") {
  Job job({0, 0});
  job.at(1).begin(kId, {1}, "mine");
  CHECK(job.at(1).take(kId)->value() == std::vector<std::string>{"mine"});
}

TEST_CASE("KeyValueExchange: values that do not fit one frame travel in pieces") {
  Job job({0, 1, 1});
  for (const int rank : job.everyone) {
    job.at(rank).begin(kId, job.everyone, std::string(300'000, static_cast<char>('a' + rank)));
  }
  job.carry();
  for (const int rank : job.everyone) {
    const auto outcome = job.at(rank).take(kId);
    REQUIRE(outcome.has_value());
    for (int of = 0; of < 3; ++of) {
      CHECK(outcome->value()[static_cast<std::size_t>(of)] ==
            std::string(300'000, static_cast<char>('a' + of)));
    }
  }
}

TEST_CASE("KeyValueExchange: the departure of any rank ends it on all others") {
  for (const int leaver : {0, 2, 3, 5, 7, 18, 39}) {
    for (const bool before : {true, false}) {
      Job job(hosts_of(20, 2));
      const Status reason(Code::kRankFailure, "it has left");
      const auto leave = [&] {
        for (const int rank : job.everyone) {
          if (rank != leaver) job.at(rank).on_left(leaver, reason);
        }
      };
      if (before) leave();
      for (const int rank : job.everyone) {
        if (rank != leaver) job.begin(rank);
      }
      job.carry();
      if (!before) leave();
      job.carry();
      for (const int rank : job.everyone) {
        CAPTURE(leaver);
        CAPTURE(rank);
        if (rank != leaver) CHECK(text_of(job.at(rank).take(kId)) == "it has left");
      }
    }
  }
}

TEST_CASE("KeyValueExchange: a rank that left after it gave its value is not missed") {
  Job job({0, 0, 0});
  for (const int rank : {1, 2}) job.begin(rank);
  job.carry();
  job.at(0).on_left(2, Status(Code::kRankFailure, "it has left"));
  job.begin(0);
  job.carry();
  CHECK(text_of(job.at(0).take(kId)).empty());
  CHECK(text_of(job.at(1).take(kId)).empty());
}

TEST_CASE("KeyValueExchange: every rank can learn who is missing") {
  const std::vector<int> missing = {1, 6, 12, 13, 37};  // 12 and 13 are a host
  Job job(hosts_of(20, 2));
  for (const int rank : job.everyone) {
    if (!std::binary_search(missing.begin(), missing.end(), rank)) job.begin(rank);
  }
  job.carry();
  for (const int rank : job.everyone) {
    if (std::binary_search(missing.begin(), missing.end(), rank)) continue;
    job.at(rank).ask_who_is_missing(kId);
    job.carry();
    CAPTURE(rank);
    CHECK(job.at(rank).missing(kId, true) == missing);
  }
}

TEST_CASE("KeyValueExchange: who gave up waiting passes the values of others on") {
  Job job(hosts_of(10, 1));
  for (int rank = 0; rank < 9; ++rank) job.begin(rank);
  job.carry();
  job.at(1).abandon(kId);
  job.begin(9);  // a child of rank 1
  job.carry();
  CHECK(text_of(job.at(9).take(kId)).empty());
  CHECK_FALSE(job.at(1).take(kId).has_value());
}

TEST_CASE("KeyValueExchange: frames that make no sense are refused") {
  Job job({0, 0});
  const auto refused = [&](const std::vector<unsigned char>& bytes) {
    return job.at(0).on_frame(1, 9, std::as_bytes(std::span(bytes))).code() ==
           Code::kInvalidArgument;
  };
  CHECK(refused({}));
  CHECK(refused({3, 0, 0, 0, 77}));
  CHECK(refused({3, 0, 0, 0, 1}));                                         // no values
  CHECK(refused({3, 0, 0, 0, 2, 0, 0, 0, 0, 1}));                          // before this rank's own
  CHECK(refused({3, 0, 0, 0, 3, 0, 0, 0, 0}));                             // a failure that is none
  CHECK(refused({3, 0, 0, 0, 4, 9, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}));  // no rank 9
}

}  // namespace ronde
