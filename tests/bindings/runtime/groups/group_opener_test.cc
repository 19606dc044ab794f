#include "bindings/runtime/groups/group_opener.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/support/local_exchange.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

using test::LocalJob;
using test::run_ranks;

class NoGroup final : public Communicator {
 public:
  explicit NoGroup(std::string name) : Communicator({.name = std::move(name)}) {}
  Status run(const Work&, DeviceStream, const AbortToken&) override { return {}; }
};

/// A backend that some ranks of a group cannot use, or find out only when they open it.
class PickyBackend final : public Backend {
 public:
  PickyBackend(std::string name, std::set<int> unviable, std::set<int> unopenable)
      : name_(std::move(name)),
        unviable_(std::move(unviable)),
        unopenable_(std::move(unopenable)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  Status viable(const GroupSpec& group) override {
    if (!unviable_.contains(group.rank)) return {};
    return {Code::kUnavailable, "not built"};
  }
  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange&) override {
    if (!unopenable_.contains(group.rank)) {
      return std::unique_ptr<Communicator>(std::make_unique<NoGroup>(name_));
    }
    return Status(Code::kResourceExhausted, "no memory\nat all");
  }

 private:
  const std::string name_;
  const std::set<int> unviable_;
  const std::set<int> unopenable_;
};

/// The groups of three ranks that open "first" or else "second".
std::vector<Result<OpenedGroup>> open_all(const std::string& wanted, std::set<int> first_fails,
                                          std::set<int> second_fails,
                                          std::set<int> first_unviable = {}) {
  constexpr int kRanks = 3;
  const LocalJob job(kRanks);
  std::vector<Result<OpenedGroup>> results;
  for (int rank = 0; rank < kRanks; ++rank) results.emplace_back(Status(Code::kInternal, ""));
  run_ranks(kRanks, [&](int rank) {
    Registry registry;
    registry.add(std::make_unique<PickyBackend>("first", first_unviable, first_fails),
                 Choice::kAutomatic);
    registry.add(std::make_unique<PickyBackend>("second", std::set<int>(), second_fails),
                 Choice::kAutomatic);
    const auto exchange = job.exchange(rank);
    results[static_cast<std::size_t>(rank)] =
        open_communicator(registry, wanted, job.group(rank), *exchange);
  });
  return results;
}

}  // namespace

TEST_CASE("Data planes: the best that opens everywhere is taken, and nothing is said") {
  for (const auto& result : open_all("auto", {}, {})) {
    REQUIRE(result.ok());
    CHECK(result->name() == "first");
    CHECK(result->passed_over.empty());
  }
  for (const auto& result : open_all("auto", {}, {}, {1})) {
    REQUIRE(result.ok());
    CHECK(result->name() == "second");
    CHECK(result->passed_over.empty());  // it was known before that it cannot be used
  }
}

TEST_CASE("Data planes: where one rank cannot open the best, all take the next and know why") {
  for (const std::set<int>& fails : {std::set<int>{0}, std::set<int>{2}, std::set<int>{0, 1, 2}}) {
    for (const auto& result : open_all("auto", fails, {})) {
      REQUIRE(result.ok());
      CHECK(result->name() == "second");
      CHECK(result->passed_over ==
            "first: rank " + std::to_string(*fails.begin()) + ": no memory at all");
    }
  }
}

TEST_CASE("Data planes: one asked for by name has no substitute") {
  const auto results = open_all("first", {1}, {});
  CHECK(results[1].status().code() == Code::kResourceExhausted);
  for (const std::size_t rank : {0U, 2U}) {
    CHECK(results[rank].status().code() == Code::kUnavailable);
    CHECK(results[rank].status().message().find("first: rank 1: no memory at all") !=
          std::string::npos);
  }
}

TEST_CASE("Data planes: where none opens, every rank says why") {
  for (const auto& result : open_all("auto", {0}, {1})) CHECK_FALSE(result.ok());
}

}  // namespace ronde
