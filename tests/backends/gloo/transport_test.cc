// Gloo's transport between ranks that are threads: order, sizes, aborts, deaths.
#include <doctest/doctest.h>

#include <latch>
#include <string>
#include <thread>

#include "backends/gloo/factory.h"
#include "core/base/bytes.h"
#include "tests/support/local_exchange.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

std::unique_ptr<Communicator> open_group(const test::LocalJob& job, int rank) {
  const auto backend = create_gloo_backend({});
  auto group = backend->open(job.group(rank), *job.exchange(rank));
  REQUIRE_MESSAGE(group.ok(), group.status().to_string());
  return std::move(group).value();
}

std::span<std::byte> writable(std::string& text) {
  return std::as_writable_bytes(std::span<char>(text.data(), text.size()));
}

TransferId posted(const Result<TransferId>& id) {
  REQUIRE_MESSAGE(id.ok(), id.status().to_string());
  return id.value();
}

TEST_CASE("gloo transport: messages of a pair arrive in the order they were posted") {
  const test::LocalJob job(2);
  test::run_ranks(2, [&](int rank) {
    const auto group = open_group(job, rank);
    Transport& transport = *group->transport();
    std::string first(3, '.'), second, third(1 << 20, '.');
    const std::string sent[] = {"abc", "", std::string(1 << 20, 'x')};
    std::vector<TransferId> ids;
    if (rank == 0) {
      for (const std::string& text : sent) ids.push_back(posted(transport.send(1, as_bytes(text))));
    } else {
      for (std::string* text : {&first, &second, &third}) {
        ids.push_back(posted(transport.recv(0, writable(*text))));
      }
    }
    for (const std::size_t index : {2U, 0U, 1U})
      CHECK(transport.wait(ids[index], job.abort()).ok());
    if (rank == 1) CHECK((first == "abc" && third == sent[2]));
  });
}

TEST_CASE("gloo transport: a token goes round rings of up to five ranks, both ways at once") {
  for (const int size : {1, 2, 3, 5}) {
    const test::LocalJob job(size);
    test::run_ranks(size, [&](int rank) {
      const auto group = open_group(job, rank);
      Transport& transport = *group->transport();
      for (int round = 0; size > 1 && round < 50; ++round) {
        const int next = (rank + 1) % size, before = (rank + size - 1) % size;
        const std::string mine = std::to_string(rank) + ":" + std::to_string(1000 + round);
        std::string theirs(mine.size(), '.');
        const auto out = posted(transport.send(next, as_bytes(mine)));
        const auto in = posted(transport.recv(before, writable(theirs)));
        CHECK(transport.wait(out, job.abort()).ok());
        CHECK(transport.wait(in, job.abort()).ok());
        CHECK(theirs == std::to_string(before) + ":" + std::to_string(1000 + round));
      }
    });
  }
}

TEST_CASE("gloo transport: an abort ends a wait that no message would end") {
  const test::LocalJob job(2);
  const Status reason(Code::kRankFailure, "rank 7 died");
  std::latch opened(2);
  test::run_ranks(2, [&](int rank) {
    const auto group = open_group(job, rank);
    std::string text(8, '.');
    const auto id = posted(group->transport()->recv(1 - rank, writable(text)));
    opened.arrive_and_wait();
    if (rank == 0) job.abort().abort(reason);
    CHECK(group->transport()->wait(id, job.abort()).message() == "rank 7 died");
    CHECK_FALSE(group->transport()->recv(1 - rank, writable(text)).ok());
  });
}

TEST_CASE("gloo transport: a peer that is gone is named") {
  const test::LocalJob job(2);
  test::run_ranks(2, [&](int rank) {
    const auto group = open_group(job, rank);
    if (rank == 1) return;
    std::string text(8, '.');
    const auto id = group->transport()->recv(1, writable(text));
    const Status status = id.ok() ? group->transport()->wait(id.value(), job.abort()) : id.status();
    CHECK(status.code() == Code::kRankFailure);
    REQUIRE(status.failed_rank().has_value());
    CHECK(status.failed_rank()->rank == 1);
  });
}

TEST_CASE("gloo transport: sending to a peer that is gone is an error, not a signal") {
  const test::LocalJob job(2);
  std::latch opened(2), gone(1);
  test::run_ranks(2, [&](int rank) {
    auto group = open_group(job, rank);
    opened.arrive_and_wait();
    if (rank == 1) {
      group.reset();
      gone.count_down();
      return;
    }
    gone.wait();
    const std::string text(1 << 16, 'x');
    Status status;
    for (int i = 0; i < 100 && status.ok(); ++i) {
      const auto id = group->transport()->send(1, as_bytes(text));
      status = id.ok() ? group->transport()->wait(id.value(), job.abort()) : id.status();
    }
    CHECK(status.code() == Code::kRankFailure);
  });
}

/// True if the first byte has arrived; other threads write.
bool begun(const std::string& text) {
  return __atomic_load_n(text.data(), __ATOMIC_RELAXED) == 'x';
}

TEST_CASE("gloo transport: an abort in the middle of a message ends both ends' waits") {
  const test::LocalJob job(2);
  const Status reason(Code::kRankFailure, "rank 7 died");
  const std::string sent(std::size_t{128} << 20, 'x');
  std::string received(sent.size(), '.');
  test::run_ranks(2, [&](int rank) {
    const auto group = open_group(job, rank);
    Transport& transport = *group->transport();
    const auto id = posted(rank == 1 ? transport.send(0, as_bytes(sent))
                                     : transport.recv(1, writable(received)));
    if (rank == 0) {
      while (!begun(received)) std::this_thread::yield();
      job.abort().abort(reason);
    }
    const Status status = transport.wait(id, job.abort());
    CHECK((status.message() == "rank 7 died" || (status.ok() && received.back() == 'x')));
  });
}

}  // namespace
}  // namespace ronde
