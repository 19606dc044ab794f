#include "bindings/cli/launch/elastic/epoch_announcer.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

namespace ronde {
namespace {

using elastic::BeginEpoch;
using elastic::EpochNote;

/// An announcer, and the frames that it has sent.
struct Announced {
  explicit Announced(const std::string& interface = "")
      : announcer(
            [this](const std::string& host, const std::string& frame) {
              AgentFrameReader reader;
              reader.feed(frame);
              sent.emplace_back(host, reader.next().value().value());
            },
            "ab12", interface) {}

  [[nodiscard]] std::vector<EpochNote> notes() const {
    std::vector<EpochNote> all;
    for (const auto& [host, frame] : sent) {
      if (frame.type != FrameType::kNote) continue;
      const auto message = decode<NoteMessage>(frame.payload).value();
      all.push_back(elastic::decode_note<EpochNote>(message.bytes).value());
    }
    return all;
  }
  [[nodiscard]] ProbeMessage last_probe() const {
    return decode<ProbeMessage>(sent.back().second.payload).value();
  }

  std::vector<std::pair<std::string, Frame>> sent;
  EpochAnnouncer announcer;
};

BeginEpoch epoch_of(elastic::EpochId epoch, const std::vector<std::string>& hosts) {
  BeginEpoch begun{epoch, {}, "a cause"};
  for (const std::string& host : hosts) begun.workers.push_back({begun.workers.size() + 1, host});
  return begun;
}

}  // namespace

TEST_CASE("epoch announcer: workers of one host hear at once, each its rank, all one secret") {
  Announced job;
  job.announcer.begin(epoch_of(3, {"a", "a"}));
  const auto notes = job.notes();
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].epoch == 3);
  CHECK(notes[0].rank == 0);
  CHECK(notes[1].rank == 1);
  CHECK(notes[0].secret.size() == 64);
  CHECK(notes[0].secret == notes[1].secret);
  CHECK(notes[0].job_id == "ab12-3");
  CHECK(notes[1].job_id == "ab12-3");
  CHECK(notes[0].rendezvous.empty());
  CHECK(notes[1].why == "a cause");
  CHECK(notes[1].workers.size() == 2);
  job.announcer.begin(epoch_of(4, {"a", "a"}));
  CHECK(job.notes()[2].secret != notes[0].secret);
  CHECK(job.notes()[2].job_id != notes[0].job_id);
}

TEST_CASE("epoch announcer: on several hosts that of rank 0 is asked for an address first") {
  Announced job;
  job.announcer.begin(epoch_of(1, {"a", "b", "b", "c"}));
  REQUIRE(job.sent.size() == 1);
  CHECK(job.sent[0].first == "a");
  CHECK(job.last_probe().towards == std::vector<std::string>{"b", "c"});
  CHECK(job.announcer.on_probed("b", {"", "10.0.0.2", 2, 3}).ok());  // not the one that was asked
  CHECK(job.notes().empty());
  CHECK(job.announcer.on_probed("a", {"", "10.0.0.1", 20123, 3}).ok());
  REQUIRE(job.notes().size() == 4);
  CHECK(job.notes()[3].rendezvous == "10.0.0.1:20123");
  CHECK(job.sent.back().first == "c");
  job.announcer.begin(epoch_of(2, {"a", "c"}));
  CHECK(job.last_probe().interface == "10.0.0.1");  // no name is looked up again
}

TEST_CASE("epoch announcer: an answer that is an error is one, and tells nobody") {
  Announced job("eth7");
  job.announcer.begin(epoch_of(1, {"a", "b"}));
  CHECK(job.last_probe().interface == "eth7");
  CHECK(job.announcer.on_probed("a", {"no eth7", "", 0, 0}).message() == "no eth7");
  CHECK(job.notes().empty());
}

TEST_CASE("epoch announcer: an epoch that is void before it is announced ends right after") {
  Announced job;
  CHECK_FALSE(job.announcer.defer({5, "nobody knows of it"}));
  job.announcer.begin(epoch_of(5, {"a", "b"}));
  CHECK_FALSE(job.announcer.defer({4, "an old one"}));
  CHECK(job.announcer.defer({5, "worker 2 was killed"}));
  REQUIRE(job.sent.size() == 1);
  CHECK(job.announcer.on_probed("a", {"", "10.0.0.1", 1, 2}).ok());
  REQUIRE(job.sent.size() == 5);
  for (std::size_t place = 3; place < 5; ++place) {
    CHECK(job.sent[place].first == (place == 3 ? "a" : "b"));
    const auto message = decode<NoteMessage>(job.sent[place].second.payload).value();
    CHECK(elastic::decode_note<elastic::VoidNote>(message.bytes)->epoch == 5);
  }
  job.announcer.begin(epoch_of(6, {"a", "b"}));
  CHECK(job.announcer.on_probed("a", {"", "10.0.0.1", 1, 2}).ok());
  CHECK(job.sent.size() == 8);
}

TEST_CASE("epoch announcer: an epoch whose first host is lost was told to nobody") {
  Announced job;
  job.announcer.begin(epoch_of(5, {"a", "b"}));
  CHECK_FALSE(job.announcer.take_unannounced("b"));
  const auto lost = job.announcer.take_unannounced("a");
  REQUIRE(lost);
  CHECK(lost->epoch == 5);
  CHECK(job.announcer.on_probed("a", {"", "10.0.0.1", 1, 2}).ok());
  CHECK(job.notes().empty());
}

}  // namespace ronde
