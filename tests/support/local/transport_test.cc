#include "tests/support/local/transport.h"

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "core/base/bytes.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

constexpr auto kPause = std::chrono::milliseconds(5);

/// A group whose ranks are made, used and destroyed in their own threads.
void with_group(int ranks, const std::function<void(LocalTransport&)>& body,
                const std::shared_ptr<AbortToken>& abort = nullptr) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 10);
  const auto boxes = std::make_shared<LocalMailboxes>(all);
  test::run_ranks(ranks, [&](int rank) {
    LocalTransport transport(boxes, rank, abort);
    body(transport);
  });
}

std::span<std::byte> writable(std::vector<int>& values) {
  return std::as_writable_bytes(std::span<int>(values));
}
std::span<const std::byte> readable(const std::vector<int>& values) {
  return std::as_bytes(std::span<const int>(values));
}

}  // namespace

TEST_CASE("LocalTransport: every pair exchanges messages of many sizes, waited for in any order") {
  for (const int ranks : {1, 2, 3, 8}) {
    with_group(ranks, [&](LocalTransport& transport) {
      const AbortToken abort;
      const int me = transport.rank();
      for (const std::size_t count : {0UL, 1UL, 127UL, 10'000UL}) {
        std::vector<TransferId> ids;
        std::vector<std::vector<int>> in(static_cast<std::size_t>(ranks),
                                         std::vector<int>(count, -1));
        const std::vector<int> out(count, me);
        for (int peer = 0; peer < ranks; ++peer) {
          if (peer == me) continue;
          ids.push_back(transport.send(peer, readable(out)).value());
          ids.push_back(transport.recv(peer, writable(in[static_cast<std::size_t>(peer)])).value());
        }
        for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
          REQUIRE(transport.wait(*id, abort).ok());
        }
        for (int peer = 0; peer < ranks; ++peer) {
          if (peer != me) {
            CHECK(in[static_cast<std::size_t>(peer)] == std::vector<int>(count, peer));
          }
        }
      }
    });
  }
}

TEST_CASE("LocalTransport: messages of one pair match in the order they were posted") {
  with_group(2, [](LocalTransport& transport) {
    const AbortToken abort;
    std::vector<int> values = {1, 2, 3};
    std::vector<TransferId> ids;
    for (int& value : values) {
      const std::span<int> one(&value, 1);
      if (transport.rank() == 0) ids.push_back(transport.send(1, std::as_bytes(one)).value());
      if (transport.rank() == 1) {
        value = 0;
        ids.push_back(transport.recv(0, std::as_writable_bytes(one)).value());
      }
    }
    for (const TransferId id : ids) REQUIRE(transport.wait(id, abort).ok());
    CHECK(values == std::vector<int>{1, 2, 3});
  });
}

TEST_CASE("LocalTransport: two ranks that both wait for their sends first drive each other") {
  with_group(2, [](LocalTransport& transport) {
    const AbortToken abort;
    const int peer = 1 - transport.rank();
    const std::vector<int> out(5000, transport.rank());
    std::vector<int> in(5000, -1);
    const TransferId sent = transport.send(peer, readable(out)).value();
    const TransferId received = transport.recv(peer, writable(in)).value();
    CHECK(transport.wait(sent, abort).ok());
    CHECK(transport.wait(received, abort).ok());
    CHECK(in == std::vector<int>(5000, peer));
  });
}

TEST_CASE("LocalTransport: bad peers and unknown transfers are refused") {
  with_group(2, [](LocalTransport& transport) {
    const AbortToken abort;
    CHECK(transport.send(transport.rank(), {}).status().code() == Code::kInvalidArgument);
    CHECK(transport.recv(2, {}).status().code() == Code::kInvalidArgument);
    CHECK(transport.send(-1, {}).status().code() == Code::kInvalidArgument);
    CHECK(transport.wait(99, abort).code() == Code::kInvalidArgument);
  });
}

TEST_CASE("LocalTransport: unequal lengths are an error on both sides") {
  with_group(2, [](LocalTransport& transport) {
    const AbortToken abort;
    std::vector<int> values(transport.rank() == 0 ? 3 : 4);
    const auto id = transport.rank() == 0 ? transport.send(1, readable(values))
                                          : transport.recv(0, writable(values));
    const Status status = transport.wait(id.value(), abort);
    if (transport.rank() == 1) {
      CHECK(status.message() == "rank 0 of the group sent 12 bytes where rank 1 expected 16");
    }
    std::vector<int> more(1);
    const int peer = 1 - transport.rank();
    const auto next = transport.recv(peer, writable(more));
    CHECK(transport.wait(next.value(), abort).code() == Code::kInternal);
  });
}

TEST_CASE("LocalTransport: the caller's token ends a wait that would last for ever") {
  AbortToken abort;
  with_group(3, [&](LocalTransport& transport) {
    std::vector<int> in(4);
    if (transport.rank() == 0) {
      std::this_thread::sleep_for(kPause);
      abort.abort(Status(Code::kRankFailure, "rank 9 died"));
    }
    const auto id = transport.recv((transport.rank() + 1) % 3, writable(in));
    CHECK(transport.wait(id.value(), abort).message() == "rank 9 died");
  });
}

TEST_CASE("LocalTransport: the group's token ends a wait that would last for ever") {
  const auto group = std::make_shared<AbortToken>();
  with_group(
      2,
      [&](LocalTransport& transport) {
        const AbortToken mine;
        if (transport.rank() == 0) {
          std::this_thread::sleep_for(kPause);
          group->abort(Status(Code::kAborted, "shutting down"));
        }
        const std::vector<int> out(4);
        const auto id = transport.send(1 - transport.rank(), readable(out));
        CHECK(transport.wait(id.value(), mine).message() == "shutting down");
      },
      group);
}

TEST_CASE("LocalTransport: waiting for a rank that has left the group is an error") {
  with_group(2, [](LocalTransport& transport) {
    if (transport.rank() == 1) return;
    const AbortToken abort;
    std::vector<int> in(4);
    const Status status = transport.wait(transport.recv(1, writable(in)).value(), abort);
    CHECK(status.code() == Code::kRankFailure);
    CHECK(status.message() == "rank 11 has left the job");
    CHECK(status.failed_rank()->rank == 11);
  });
}

TEST_CASE("LocalTransport: a send is no failure because its receiver left as soon as it had it") {
  for (int round = 0; round < 300; ++round) {
    with_group(2, [](LocalTransport& transport) {
      const AbortToken abort;
      std::vector<int> data(16);
      const auto id = transport.rank() == 0 ? transport.send(1, readable(data))
                                            : transport.recv(0, writable(data));
      CHECK(transport.wait(id.value(), abort).ok());
    });
  }
}

TEST_CASE("LocalTransport: memory of a send that was given up is not read any more") {
  for (int round = 0; round < 50; ++round) {
    AbortToken abort;
    with_group(2, [&](LocalTransport& transport) {
      auto data = std::make_unique<std::vector<int>>(20'000);
      const auto id = transport.rank() == 0 ? transport.send(1, readable(*data))
                                            : transport.recv(0, writable(*data));
      if (transport.rank() == 0) abort.abort(Status(Code::kAborted, "given up"));
      (void)transport.wait(id.value(), abort);
      data->assign(data->size(), 1);  // a late reader or writer is a race that TSan reports
      data.reset();
    });
  }
}

}  // namespace ronde
