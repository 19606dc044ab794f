#include "core/elastic/notes.h"

#include <doctest/doctest.h>

namespace ronde::elastic {
namespace {

TEST_CASE("notes: an epoch's note comes back as it was") {
  EpochNote note;
  note.epoch = 3;
  note.rank = 1;
  note.job_id = "job.3";
  note.rendezvous_tree = "1x2 10.0.0.2:1 10.0.0.1:1";
  note.workers = {{4, "a", true}, {9, "b", false}};
  const std::string message = encode_note(note);
  REQUIRE(note_type(message).ok());
  CHECK(*note_type(message) == NoteType::kEpoch);
  const auto back = decode_note<EpochNote>(message);
  REQUIRE(back.ok());
  CHECK(back->epoch == 3);
  CHECK(back->rank == 1);
  CHECK(back->job_id == "job.3");
  CHECK(back->rendezvous_tree == note.rendezvous_tree);
  REQUIRE(back->workers.size() == 2);
  CHECK(back->workers[1].worker == 9);
  CHECK(back->workers[0].holds_state);
}

TEST_CASE("notes: an epoch of 4,096 workers fits one message") {
  EpochNote note;
  for (WorkerId id = 1; id <= 4096; ++id) note.workers.push_back({id, std::string(64, 'h'), true});
  CHECK(encode_note(note).size() < kMaxNoteBytes);
}

TEST_CASE("notes: malformed messages are errors") {
  CHECK_FALSE(note_type("").ok());
  CHECK_FALSE(note_type("\x63").ok());
  const std::string message = encode_note(ReadyNote{});
  for (std::size_t length = 0; length < message.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(decode_note<ReadyNote>(message.substr(0, length)).ok());
  }
  CHECK_FALSE(decode_note<ReadyNote>(message + "x").ok());
}

}  // namespace
}  // namespace ronde::elastic
