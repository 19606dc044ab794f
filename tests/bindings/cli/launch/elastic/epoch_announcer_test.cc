#include "bindings/cli/launch/elastic/epoch_announcer.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ronde {
namespace {

using elastic::BeginEpoch;
using elastic::EpochNote;

/// An announcer, and the frames that it has sent.
struct Announced {
  explicit Announced(const std::string& interface = "")
      : announcer({.send =
                       [this](const std::string& host, const std::string& frame) {
                         MessageReader reader;
                         reader.feed(frame);
                         sent.emplace_back(host, reader.next().value().value());
                       },
                   .say_if_verbose = [this](const std::string& text) { said += text; },
                   .job = "ab12",
                   .interface = interface}) {}

  [[nodiscard]] std::vector<EpochNote> notes() const {
    std::vector<EpochNote> all;
    for (const auto& [host, message] : sent) {
      const auto* note = std::get_if<NoteMessage>(&message);
      if (note != nullptr) all.push_back(elastic::decode_note<EpochNote>(note->bytes).value());
    }
    return all;
  }
  /// The newest question to each host.
  [[nodiscard]] std::map<std::string, ProbeMessage> questions() const {
    std::map<std::string, ProbeMessage> all;
    for (const auto& [host, message] : sent) {
      if (const auto* probe = std::get_if<ProbeMessage>(&message)) all[host] = *probe;
    }
    return all;
  }
  Status answer(const std::string& host, const std::string& address) {
    return announcer.on_probed(host, {"", address, 4000, 5000});
  }

  std::vector<std::pair<std::string, AgentMessage>> sent;
  std::string said;
  EpochAnnouncer announcer;
};

BeginEpoch epoch_of(elastic::EpochId epoch, const std::vector<std::string>& hosts) {
  BeginEpoch begun{epoch, {}, "a cause"};
  for (const std::string& host : hosts) begun.workers.push_back({begun.workers.size() + 1, host});
  return begun;
}

elastic::BeginEpoch epoch_with(elastic::EpochId epoch,
                               const std::vector<elastic::WorkerId>& workers,
                               const std::string& why = "") {
  elastic::BeginEpoch begun{epoch, {}, why};
  for (const elastic::WorkerId worker : workers) begun.workers.push_back({worker, "a"});
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

TEST_CASE("epoch announcer: of several hosts all are asked for an address first, each once") {
  Announced job;
  job.announcer.begin(epoch_of(1, {"a", "b", "b", "c"}));
  REQUIRE(job.sent.size() == 3);
  auto questions = job.questions();
  CHECK(questions["a"].towards == std::vector<std::string>{"b", "c"});
  CHECK(questions["b"].towards == std::vector<std::string>{"a"});
  CHECK(questions["c"].towards == std::vector<std::string>{"a"});
  CHECK(job.answer("c", "10.0.0.3").ok());
  CHECK(job.answer("a", "10.0.0.1").ok());
  CHECK(job.answer("a", "10.0.0.1").ok());  // again
  CHECK(job.answer("d", "10.0.0.4").ok());  // not one of the epoch's
  CHECK(job.notes().empty());
  CHECK(job.answer("b", "10.0.0.2").ok());
  const auto notes = job.notes();
  REQUIRE(notes.size() == 4);
  CHECK(notes[3].rank == 3);
  CHECK(notes[3].rendezvous == "10.0.0.1:4000");
  CHECK(job.sent.back().first == "c");
  job.announcer.begin(epoch_of(2, {"a", "c"}));
  questions = job.questions();
  CHECK(questions["a"].interface == "10.0.0.1");  // no name is looked up again
  CHECK(questions["c"].interface == "10.0.0.3");
}

TEST_CASE("epoch announcer: workers meet along a tree of hosts, those that are apart too") {
  Announced job;
  job.announcer.begin(epoch_of(1, {"a", "b", "b", "c", "a"}));
  for (const char* host : {"a", "b", "c"}) CHECK(job.answer(host, "10.0.0.1").ok());
  const auto notes = job.notes();
  REQUIRE(notes.size() == 5);
  CHECK(notes[0].rendezvous_tree == "1x1,2x1,1x1,1@0 10.0.0.1:4000");
  CHECK(notes[4].rendezvous_tree == notes[0].rendezvous_tree);
  CHECK(notes[2].rendezvous_tree == "1x1,2x1,1x1,1@0 10.0.0.1:4000 10.0.0.1:4000");
  CHECK(notes[1].rendezvous == "10.0.0.1:4000");
}

TEST_CASE("epoch announcer: the messages of an epoch are a question and an answer a host") {
  Announced job;
  std::vector<std::string> hosts;
  for (int worker = 0; worker < 512; ++worker) hosts.push_back("host" + std::to_string(worker / 8));
  job.announcer.begin(epoch_of(1, hosts));
  REQUIRE(job.sent.size() == 64);
  std::size_t named = 0;
  for (const auto& [host, question] : job.questions()) named += question.towards.size();
  CHECK(named == 63 + 63 + 63 - 8);  // all others, each's parent, and children but the first host's
  for (int host = 0; host < 64; ++host) {
    CHECK(job.answer("host" + std::to_string(host), "10.0.0." + std::to_string(host)).ok());
  }
  const auto notes = job.notes();
  REQUIRE(notes.size() == 512);
  CHECK(notes[511].rendezvous_tree == "8x64 10.0.0.63:4000 10.0.0.7:4000");
}

TEST_CASE("epoch announcer: where a host does not know its address, all meet at rank 0") {
  Announced job;
  job.announcer.begin(epoch_of(1, {"a", "b"}));
  CHECK(job.announcer.on_probed("b", {"no route to \"a\"", "", 0, 0}).ok());
  CHECK(job.answer("a", "10.0.0.1").ok());
  REQUIRE(job.notes().size() == 2);
  CHECK(job.notes()[1].rendezvous == "10.0.0.1:4000");
  CHECK(job.notes()[1].rendezvous_tree.empty());
  CHECK(job.said == "b: no route to \"a\": all ranks meet at rank 0");
  job.announcer.begin(epoch_of(2, {"a", "b"}));
  CHECK(job.questions()["b"].interface.empty());
}

TEST_CASE("epoch announcer: an error of rank 0's host is one, and tells nobody") {
  Announced job("eth7");
  job.announcer.begin(epoch_of(1, {"a", "b"}));
  CHECK(job.questions()["a"].interface == "eth7");
  CHECK(job.questions()["b"].interface == "eth7");
  CHECK(job.announcer.on_probed("a", {"no eth7", "", 0, 0}).message() == "no eth7");
  CHECK(job.notes().empty());
}

TEST_CASE("epoch announcer: an epoch that is void before it is announced ends right after") {
  Announced job;
  CHECK_FALSE(job.announcer.defer({5, "nobody knows of it"}));
  job.announcer.begin(epoch_of(5, {"a", "b"}));
  CHECK_FALSE(job.announcer.defer({4, "an old one"}));
  CHECK(job.announcer.defer({5, "worker 2 was killed"}));
  CHECK(job.answer("a", "10.0.0.1").ok());
  REQUIRE(job.sent.size() == 2);
  CHECK(job.answer("b", "10.0.0.2").ok());
  REQUIRE(job.sent.size() == 6);
  for (std::size_t place = 4; place < 6; ++place) {
    CHECK(job.sent[place].first == (place == 4 ? "a" : "b"));
    const auto message = std::get<NoteMessage>(job.sent[place].second);
    CHECK(elastic::decode_note<elastic::VoidNote>(message.bytes)->epoch == 5);
  }
  job.announcer.begin(epoch_of(6, {"a", "b"}));
  for (const char* host : {"a", "b"}) CHECK(job.answer(host, "10.0.0.1").ok());
  CHECK(job.sent.size() == 10);
}

TEST_CASE("epoch announcer: an epoch one of whose hosts is lost was told to nobody") {
  for (const std::string gone : {"a", "b"}) {
    CAPTURE(gone);
    Announced job;
    job.announcer.begin(epoch_of(5, {"a", "b", "b"}));
    CHECK_FALSE(job.announcer.take_unannounced("c"));
    const auto lost = job.announcer.take_unannounced(gone);
    REQUIRE(lost);
    CHECK(lost->epoch == 5);
    for (const char* host : {"a", "b"}) CHECK(job.answer(host, "10.0.0.1").ok());
    CHECK(job.notes().empty());
    CHECK_FALSE(job.announcer.take_unannounced(gone));
  }
}

TEST_CASE("epoch text: who goes on, who joins, and why") {
  EpochText text;
  CHECK(text.begin(epoch_with(1, {1, 2, 3, 4})) == "epoch 1: 4 workers begin");
  CHECK(text.begin(epoch_with(2, {1, 3, 4}, "worker 2 was killed")) ==
        "epoch 2: 3 of 4 workers go on; worker 2 was killed");
  CHECK(text.begin(epoch_with(3, {1, 3, 4, 5})) == "epoch 3: 3 of 3 workers go on, worker 5 joins");
  CHECK(text.begin(epoch_with(4, {1, 6, 7})) ==
        "epoch 4: 1 of 4 workers goes on, workers 6 and 7 join");
  std::vector<elastic::WorkerId> many;
  for (elastic::WorkerId worker = 1; worker <= 20; ++worker) many.push_back(worker);
  CHECK(text.begin(epoch_with(5, many)) == "epoch 5: 3 of 3 workers go on, 17 workers join");
}

}  // namespace ronde
