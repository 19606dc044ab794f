// Timeline events of negotiations: one event for all operations that are agreed together.
#include <doctest/doctest.h>

#include <latch>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ports/event_sink.h"
#include "tests/core/engine/engine_job.h"
#include "tests/core/engine/forwarding_channel.h"
#include "tests/support/local/factory.h"

namespace ronde {
namespace {

using test::EngineJob;
using test::EngineRank;

/// Holds up the thread that drives the engine, from the first poll until `open`.
struct Hold {
  std::latch reached{1};
  std::latch open{1};
};

class HeldChannel final : public test::ForwardingChannel {
 public:
  HeldChannel(std::unique_ptr<ControlChannel> inner, Hold& hold)
      : ForwardingChannel(std::move(inner)), hold_(hold) {}
  bool poll(ChannelSink& sink) override {
    if (!std::exchange(polled_, true)) hold_.reached.count_down();
    hold_.open.wait();
    return ForwardingChannel::poll(sink);
  }

 private:
  Hold& hold_;
  bool polled_ = false;  // driving thread only
};

/// Notes the tracks of each event that ends spans.
class Ends final : public EventSink {
 public:
  void begin(std::string_view /*track*/, std::string_view /*event*/,
             const EventArgs& /*args*/) override {}
  void end(std::string_view track, const EventArgs& /*args*/) override {
    ends.push_back({std::string(track)});
  }
  void end_all(std::span<const std::string_view> tracks, const EventArgs& /*args*/) override {
    ends.emplace_back(tracks.begin(), tracks.end());
  }
  void span(std::string_view /*track*/, std::string_view /*event*/, TimeSpan /*times*/,
            const EventArgs& /*args*/) override {}
  void instant(std::string_view /*track*/, std::string_view /*event*/) override {}
  void counter(std::string_view /*name*/, double /*value*/) override {}

  std::vector<std::vector<std::string>> ends;
};

}  // namespace

TEST_CASE("Engine: the negotiations of a batch of tensors end in one event") {
  const EngineJob job(1);
  Hold hold;
  Ends noted;
  EngineRank rank(job, std::make_unique<HeldChannel>(create_local_channel(job.hub, 0), hold));
  rank.events.set(&noted);
  hold.reached.wait();
  std::vector<std::vector<float>> values(5, std::vector<float>(3));
  std::vector<OperationPtr> operations;
  std::vector<std::string> tracks;
  for (std::vector<float>& value : values) {
    const std::string name = "t" + std::to_string(operations.size());
    auto submitted = rank.engine->submit(kGlobalSet, test::sum_of(name, value));
    if (!submitted.ok()) break;
    operations.push_back(*submitted);
    tracks.push_back("allreduce." + name);
  }
  hold.open.count_down();
  REQUIRE(operations.size() == values.size());
  for (const OperationPtr& operation : operations) REQUIRE(rank.engine->wait(operation, {}).ok());
  REQUIRE(noted.ends.size() == 1);
  CHECK(noted.ends[0] == tracks);
}

}  // namespace ronde
