#include <doctest/doctest.h>

#include <type_traits>

#include "bindings/cli/launch/elastic/workers.h"

namespace ronde {

TEST_CASE("worker notes: a frame carries the note to the worker's agent") {
  MessageReader reader;
  reader.feed(note_frame(7, elastic::DismissedNote{true, "over"}));
  const auto message = std::get<NoteMessage>(reader.next().value().value());
  CHECK(message.rank == 6);
  CHECK(worker_of(message.rank) == 7);
  CHECK(elastic::decode_note<elastic::DismissedNote>(message.bytes)->why == "over");
}

TEST_CASE("worker notes: each of a worker's notes is told by its type") {
  std::string seen;
  const auto see = [&](const auto& note) {
    using Note = std::remove_cvref_t<decltype(note)>;
    seen += static_cast<char>('0' + static_cast<int>(Note::kType));
  };
  CHECK(visit_note(elastic::encode_note(elastic::ReadyNote{}), see).ok());
  CHECK(visit_note(elastic::encode_note(elastic::HoldsNote{}), see).ok());
  CHECK(visit_note(elastic::encode_note(elastic::LeavingNote{}), see).ok());
  CHECK(visit_note(elastic::encode_note(elastic::FinishedNote{}), see).ok());
  CHECK(seen == "1234");
}

TEST_CASE("worker notes: what is malformed, or not for launchers, is an error") {
  bool used = false;
  const auto use = [&](const auto&) { used = true; };
  const std::string ready = elastic::encode_note(elastic::ReadyNote{});
  for (const std::string& bad :
       {std::string(), std::string("\x09"), ready.substr(0, ready.size() - 1),
        elastic::encode_note(elastic::DismissedNote{})}) {
    CHECK(visit_note(bad, use).code() == Code::kInvalidArgument);
  }
  CHECK_FALSE(used);
}

}  // namespace ronde
