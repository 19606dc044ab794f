// Transports of several ranks whose number of connections is limited.
#include <doctest/doctest.h>

#include <barrier>
#include <chrono>
#include <future>
#include <thread>

#include "backends/net/mesh/connection_budget.h"
#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/data/tcp_ranks.h"
#include "tests/support/run_ranks.h"

namespace ronde::net {
namespace {

/// The groups of one rank, with a limit of its connections.
class Member {
 public:
  Member(const test::LocalJob& job, Listeners& listeners, std::barrier<>& all, int rank, int most,
         std::chrono::milliseconds late_after)
      : job_(job),
        all_(all),
        rank_(rank),
        backend_(tcp_backend(listeners, rank,
                             {.late_after = late_after,
                              .budget = std::make_shared<ConnectionBudget>(most, counts_)})) {
    add_group();
  }
  void add_group() {
    GroupSpec group = job_.group(rank_);
    group.key += groups_.size();
    groups_.push_back(backend_->open(group, *job_.exchange(rank_)).value());
  }
  void close_groups() { groups_.clear(); }
  [[nodiscard]] Transport& transport(std::size_t group = 0) const {
    return *groups_[group]->transport();
  }
  [[nodiscard]] const ConnectionCounts& counts() const { return *counts_; }

  /// True once at most that many connections are open; false after 10 s. Meanwhile no rank of the
  /// group is inside a wait.
  [[nodiscard]] bool comes_down_to(std::uint64_t most) const {
    all_.arrive_and_wait();
    const TimePoint limit = now() + std::chrono::seconds(10);
    while (counts_->open() > most && now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const bool came = counts_->open() <= most;
    all_.arrive_and_wait();
    return came;
  }

 private:
  const test::LocalJob& job_;
  std::barrier<>& all_;
  const int rank_;
  const std::shared_ptr<ConnectionCounts> counts_ = std::make_shared<ConnectionCounts>();
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<Communicator>> groups_;
};

/// Runs `body` for each rank of a limited group.
void with_limit(Wires wires, int ranks, int most,
                const std::function<void(Member&, int rank, AbortToken&)>& body,
                std::chrono::milliseconds late_after = std::chrono::seconds(1)) {
  const test::LocalJob job(ranks, hosts_for(wires, ranks));
  Listeners listeners(wires, ranks);
  std::barrier<> all(ranks);
  test::run_ranks(ranks, [&](int rank) {
    Member member(job, listeners, all, rank, most, late_after);
    body(member, rank, job.abort());
  });
}

/// A frame of its own to `to`, and that of `from`, which must be right.
void swap_frames(Transport& transport, int to, int from, std::size_t round, std::size_t bytes,
                 const AbortToken& abort) {
  const auto out = make_frame(transport.rank(), round, bytes);
  std::vector<std::byte> in(bytes);
  const auto received = transport.recv(from, in);
  const auto sent = transport.send(to, out);
  REQUIRE(received.ok());
  REQUIRE(sent.ok());
  for (const TransferId id : {*sent, *received}) {
    const Status end = transport.wait(id, abort);
    REQUIRE_MESSAGE(end.ok(), end.to_string());
  }
  REQUIRE(in == make_frame(from, round, bytes));
}

void swap_with_all(Transport& transport, std::size_t round, std::size_t bytes,
                   const AbortToken& abort) {
  const int ranks = transport.size();
  for (int step = 1; step < ranks; ++step) {
    swap_frames(transport, (transport.rank() + step) % ranks,
                (transport.rank() + ranks - step) % ranks, round, bytes, abort);
  }
}

constexpr std::size_t rounds(int wanted) { return static_cast<std::size_t>(test::rounds(wanted)); }

constexpr std::size_t kSizes[] = {8, 0, 70'000, 1, 1'000'003};
constexpr Wires kLimitedWires[] = {Wires::kTcp,           Wires::kSealed,
                                   Wires::kHealing,       Wires::kHealingSealed,
                                   Wires::kTwoInterfaces, Wires::kTwoInterfacesHealing};

TEST_CASE("all ranks exchange with all, within few connections, and the bytes are right") {
  for (const Wires wires : kLimitedWires) {
    CAPTURE(static_cast<int>(wires));
    for (const int most : {1, 2}) {
      with_limit(wires, 5, most, [&](Member& member, int, AbortToken& abort) {
        for (std::size_t round = 0; round < rounds(40); ++round) {
          swap_with_all(member.transport(), round, kSizes[round % std::size(kSizes)], abort);
        }
        CHECK(member.comes_down_to(static_cast<std::uint64_t>(most)));
        CHECK(member.counts().closed > 0);
        swap_with_all(member.transport(), 99, 8, abort);
      });
    }
  }
}

TEST_CASE("a rank that connects with peers which are late finds none of them gone") {
  for (const Wires wires : {Wires::kTcp, Wires::kSealed}) {
    const auto body = [](Member& member, int, AbortToken& abort) {
      for (std::size_t round = 0; round < rounds(60); ++round) {
        swap_with_all(member.transport(), round, kSizes[round % std::size(kSizes)], abort);
      }
    };
    with_limit(wires, 5, 1, body, std::chrono::milliseconds(0));
  }
}

TEST_CASE("a peer that leaves after all transfers ends no wait for another") {
  for (const Wires wires : {Wires::kTcp, Wires::kSealed}) {
    with_limit(wires, 3, 2, [](Member& member, int rank, AbortToken& abort) {
      std::byte byte{1};
      Transport& transport = member.transport();
      const auto end_of = [&](const Result<TransferId>& id) {
        const Status end = transport.wait(id.value(), abort);
        REQUIRE_MESSAGE(end.ok(), end.to_string());
      };
      if (rank == 1) {
        end_of(transport.recv(2, {&byte, 1}));
        end_of(transport.recv(0, {&byte, 1}));
      } else {
        // Rank 1 sees meanwhile that rank 2 has left, and looks at all its peers.
        if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
        end_of(transport.send(1, {&byte, 1}));
      }
    });
  }
}

TEST_CASE("a ring of ranks has its two connections, also beyond a limit of one") {
  for (const int most : {1, 2}) {
    with_limit(Wires::kTcp, 4, most, [&](Member& member, int rank, AbortToken& abort) {
      for (std::size_t round = 0; round < rounds(300); ++round) {
        swap_frames(member.transport(), (rank + 1) % 4, (rank + 3) % 4, round, 1000, abort);
      }
      if (most == 2) CHECK(member.counts().closed == 0);
      CHECK(member.comes_down_to(static_cast<std::uint64_t>(most)));
    });
  }
}

TEST_CASE("both sides end and use a connection at the same time, and no byte is lost") {
  for (const Wires wires : {Wires::kTcp, Wires::kSealed, Wires::kHealing, Wires::kHealingSealed}) {
    // Of three groups of two ranks, at most one may keep its connection.
    with_limit(wires, 2, 1, [](Member& member, int rank, AbortToken& abort) {
      member.add_group();
      member.add_group();
      for (std::size_t round = 0; round < rounds(300); ++round) {
        const std::size_t group = round % 3;
        // Pauses around the time after which idle connections are looked at.
        if (round % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(15 + round % 11));
        swap_frames(member.transport(group), 1 - rank, 1 - rank, round,
                    kSizes[round % std::size(kSizes)], abort);
      }
      CHECK(member.comes_down_to(1));
      CHECK(member.counts().closed > 0);
    });
  }
}

TEST_CASE("transports in threads of their own share one limit") {
  with_limit(Wires::kTcp, 3, 2, [](Member& member, int, AbortToken& abort) {
    member.add_group();
    const auto work = [&](std::size_t group) {
      for (std::size_t round = 0; round < rounds(60); ++round) {
        swap_with_all(member.transport(group), round, kSizes[round % std::size(kSizes)], abort);
      }
    };
    auto other = std::async(std::launch::async, work, 1);
    work(0);
    other.get();
    CHECK(member.comes_down_to(2));
  });
}

TEST_CASE("a peer that computes answers, and does not end what is used") {
  for (const Wires wires : {Wires::kTcp, Wires::kHealing}) {
    with_limit(wires, 3, 1, [](Member& member, int rank, AbortToken& abort) {
      std::byte byte{1};
      const auto pass = [&](int from, int to) {
        if (rank != from && rank != to) return;
        const auto id = rank == from ? member.transport().send(to, {&byte, 1})
                                     : member.transport().recv(from, {&byte, 1});
        REQUIRE(member.transport().wait(id.value(), abort).ok());
      };
      pass(0, 1);
      pass(0, 2);
      // Nobody is inside a wait: the managers end one connection of rank 0.
      CHECK(member.comes_down_to(1));
      pass(0, 1);
      pass(2, 0);
      pass(1, 2);
      CHECK(member.comes_down_to(1));
    });
  }
}

TEST_CASE("a connection that one side waits on is refused to end") {
  for (const Wires wires : {Wires::kTcp, Wires::kHealing}) {
    std::barrier<> all(3);
    with_limit(wires, 3, 1, [&](Member& member, int rank, AbortToken& abort) {
      std::byte byte{1};
      Transport& transport = member.transport();
      if (rank == 0) {
        // Ranks 1 and 2 wait for rank 0, which has more connections than it may have.
        all.arrive_and_wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        CHECK(member.counts().open() == 2);
        CHECK(member.counts().opened == 2);
        for (const int to : {1, 2}) {
          REQUIRE(transport.wait(transport.send(to, {&byte, 1}).value(), abort).ok());
        }
      } else {
        const auto id = transport.recv(0, {&byte, 1});
        all.arrive_and_wait();
        REQUIRE(transport.wait(id.value(), abort).ok());
      }
      all.arrive_and_wait();
      CHECK(member.comes_down_to(1));
      all.arrive_and_wait();
    });
  }
}

TEST_CASE("bytes that a rank sent before it left its group arrive, though its peer asks to end") {
  constexpr std::size_t kBytes = 3'000'000;
  for (int round = 0; round < test::rounds(20); ++round) {
    const Wires wires = round % 2 == 0 ? Wires::kTcp : Wires::kHealing;
    with_limit(wires, 3, 1, [&](Member& member, int rank, AbortToken& abort) {
      swap_with_all(member.transport(), 0, 8, abort);
      if (rank == 0) {
        const auto out = make_frame(0, 1, kBytes);
        for (const int to : {1, 2}) {
          REQUIRE(member.transport().wait(member.transport().send(to, out).value(), abort).ok());
        }
        member.close_groups();
        return;
      }
      std::vector<std::byte> in(kBytes);
      std::this_thread::sleep_for(std::chrono::milliseconds(round));
      REQUIRE(member.transport().wait(member.transport().recv(0, in).value(), abort).ok());
      CHECK(in == make_frame(0, 1, kBytes));
    });
  }
}

TEST_CASE("connections are counted, and the time to open them") {
  with_limit(Wires::kTcp, 2, 0, [](Member& member, int rank, AbortToken& abort) {
    swap_frames(member.transport(), 1 - rank, 1 - rank, 0, 8, abort);
    CHECK(member.counts().opened == 1);
    CHECK(member.counts().open() == 1);
    CHECK((member.counts().opening_ns > 0) == (rank == 1));  // the higher rank dials
    member.close_groups();
    CHECK(member.counts().open() == 0);
  });
}

}  // namespace
}  // namespace ronde::net
