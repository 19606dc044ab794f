#include "ops/execution/auto_tuner.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/rank.h"
#include "tests/ops/local_fixture.h"

namespace ronde::test {
namespace {

class Marks final : public EventSink {
 public:
  void begin(std::string_view, std::string_view, const EventArgs&) override {}
  void end(std::string_view, const EventArgs&) override {}
  void span(std::string_view, std::string_view, TimeSpan, const EventArgs&) override {}
  void instant(std::string_view, std::string_view text) override { texts.emplace_back(text); }
  void counter(std::string_view, double) override {}
  std::vector<std::string> texts;
};

/// A rank's tuner over the local backend.
struct TunedRank {
  TunedRank(Backend& backend, const GroupSpec& group, Exchange& exchange, bool deterministic)
      : abort(*group.abort),
        host({.whole = backend.open(group, exchange).value()},
             {.kernels = plain_kernels(), .rank = group.rank, .size = group.size()}),
        numbers(host.dense(), group.size()),
        tuner({.size = group.size(), .deterministic = deterministic, .events = &events}, host,
              numbers) {
    events.set(&marks);
  }

  Result<std::string> choose(const std::string& compression, Device device = {}) {
    Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32);
    bundle.compression = compression;
    bundle.device = device;
    bundle.tensors.emplace_back();
    bundle.tensors.back().shape = {1024, 16};
    bundle.keys = {"w"};
    return tuner.choose(bundle, 65536, abort);
  }

  const AbortToken& abort;
  Marks marks;
  EventSwitch events;
  HostCommunicators host;
  NumberExchange numbers;
  AutoTuner tuner;
};

void on_two_ranks(const std::function<void(TunedRank&)>& body, bool deterministic = false) {
  LocalFixture().run(2, [&](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    TunedRank rank(backend, group, exchange, deterministic);
    body(rank);
    CHECK(exchange.allgather("done").ok());
  });
}

}  // namespace

TEST_CASE("auto tuner: a bundle that names its codec keeps it, and is not timed") {
  on_two_ranks([](TunedRank& rank) {
    CHECK(rank.choose("int8").value() == "int8");
    CHECK(rank.tuner.observe(rank.abort).ok());
    CHECK(rank.tuner.explain().empty());
    CHECK(rank.marks.texts.empty());
  });
}

TEST_CASE("auto tuner: the link is measured at first, and a choice that is new is reported") {
  on_two_ranks([](TunedRank& rank) {
    REQUIRE(rank.choose("auto").ok());
    REQUIRE(rank.marks.texts.size() == 1);
    CHECK(rank.marks.texts[0].starts_with("compression auto: 0.0655 MB "));
    CHECK(rank.tuner.observe(rank.abort).ok());
    CHECK(rank.tuner.explain().size() == 2);
  });
}

TEST_CASE("auto tuner: deterministic jobs and devices stay dense, unmeasured") {
  on_two_ranks(
      [](TunedRank& rank) {
        CHECK(rank.choose("auto").value().empty());
        CHECK(rank.tuner.explain().empty());
      },
      true);
  on_two_ranks([](TunedRank& rank) {
    CHECK(rank.choose("auto", {DeviceKind::kCuda, 0}).value().empty());
    CHECK(rank.tuner.explain().empty());
  });
}

TEST_CASE("auto tuner: a parameter that does not parse is an error") {
  on_two_ranks([](TunedRank& rank) {
    CHECK(rank.choose("auto:speed=9").status().code() == Code::kInvalidArgument);
    CHECK(rank.tuner.observe(rank.abort).ok());
  });
}

}  // namespace ronde::test
