// Timeline events of compressed allreduces in device memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/backends/cuda/compressed_steps.h"
#include "tests/backends/nccl/nccl_fixture.h"

namespace ronde::test {
namespace {

/// Keeps what it hears of each operation, and the names of the device's spans.
class Heard final : public EventSink {
 public:
  void begin(std::string_view, std::string_view, const EventArgs& args) override {
    algorithms.emplace_back(args.algorithm);
    backends.emplace_back(args.backend);
    bytes.push_back(args.bytes);
  }
  void end(std::string_view, const EventArgs& args) override {
    wire_bytes.push_back(args.compression.wire_bytes);
  }
  void span(std::string_view, std::string_view event, TimeSpan, const EventArgs&) override {
    spans.emplace_back(event);
  }
  void instant(std::string_view, std::string_view) override {}
  void counter(std::string_view name, double value) override {
    if (name == "compression ratio") ratios.push_back(value);
  }

  std::vector<std::string> algorithms, backends, spans;
  std::vector<std::uint64_t> bytes, wire_bytes;
  std::vector<double> ratios;
};

/// Two ranks that tell what they do.
struct TellingRanks : WithResiduals<NcclFixture> {
  TellingRanks() : WithResiduals({.compression = {}, .ranks = {2}}) {
    for (int rank = 0; rank < 2; ++rank) events[rank].set(&heard[rank]);
  }
  std::unique_ptr<Executor> make_executor(ExecutorOptions options, const GroupSpec& group,
                                          Exchange& exchange) const override {
    options.events = &events[group.rank];
    return WithResiduals::make_executor(std::move(options), group, exchange);
  }
  Heard heard[2];
  EventSwitch events[2];
};

}  // namespace

TEST_CASE("nccl compression: the timeline hears the codec, the bytes and the device's parts") {
  TellingRanks fixture;
  const CompressedSteps steps{.compression = "int8", .counts = {1024}, .ranks = {2}};
  on_ranks(fixture, [&](const Rank& rank) {
    for (int step = 0; step < 2; ++step) (void)run_step(rank, steps, step);
  });
  for (const Heard& heard : fixture.heard) {
    CHECK(heard.algorithms == std::vector<std::string>(2, "int8"));
    CHECK(heard.backends == std::vector<std::string>(2, "nccl"));
    CHECK(heard.bytes == std::vector<std::uint64_t>(2, 4096));
    CHECK(heard.wire_bytes == std::vector<std::uint64_t>(2, 1032));  // a block there and one back
    REQUIRE(heard.ratios.size() == 2);
    CHECK(heard.ratios[0] == doctest::Approx(4096.0 / 1032));
    REQUIRE(heard.spans.size() >= 5);
    const std::vector<std::string> first(heard.spans.begin(), heard.spans.begin() + 5);
    CHECK(first == std::vector<std::string>{"COMPRESS", "nccl", "ADD", "nccl", "DECOMPRESS"});
  }
}

TEST_CASE("nccl compression: the timeline hears of top-k's parts, lists and bytes") {
  TellingRanks fixture;
  const CompressedSteps steps{.compression = "topk", .counts = {6400}, .ranks = {2}};
  on_ranks(fixture, [&](const Rank& rank) {
    for (int step = 0; step < 2; ++step) (void)run_step(rank, steps, step);
  });
  for (const Heard& heard : fixture.heard) {
    CHECK(heard.algorithms == std::vector<std::string>(2, "topk"));
    CHECK(heard.backends == std::vector<std::string>(2, "lists over local"));
    CHECK(heard.bytes == std::vector<std::uint64_t>(2, 25'600));
    for (const std::uint64_t sent : heard.wire_bytes) {
      CHECK(sent > 64);
      CHECK(sent < 1536);  // 6 words for each of the 64 that are chosen
    }
    CHECK(heard.ratios.empty());
    REQUIRE(heard.spans.size() >= 3);
    const std::vector<std::string> first(heard.spans.begin(), heard.spans.begin() + 3);
    CHECK(first == std::vector<std::string>{"COMPRESS", "lists over local", "DECOMPRESS"});
  }
}

}  // namespace ronde::test
