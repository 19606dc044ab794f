// Notes of workers inside the frames of agents.
#pragma once

#include <string>
#include <string_view>

#include "bindings/cli/launch/messages.h"
#include "core/base/status.h"
#include "core/elastic/notes.h"

namespace ronde {

/// The number under which agents know a worker; it also marks the worker's lines of output.
inline int agent_rank(elastic::WorkerId worker) { return static_cast<int>(worker - 1); }
inline elastic::WorkerId worker_of(int agent_rank) {
  return static_cast<elastic::WorkerId>(agent_rank) + 1;
}

/// A note to a worker, as a frame for its agent.
template <typename Note>
std::string note_frame(elastic::WorkerId worker, const Note& note) {
  return encode(NoteMessage{agent_rank(worker), elastic::encode_note(note)});
}

/// Calls `use` with a note that a worker sends. Errors: kInvalidArgument where it is malformed, or
/// is one that only launchers send.
template <typename Use>
Status visit_note(std::string_view bytes, Use use) {
  const auto with = [&]<typename Note>(Note) -> Status {
    RONDE_ASSIGN_OR_RETURN(const Note note, elastic::decode_note<Note>(bytes));
    use(note);
    return {};
  };
  RONDE_ASSIGN_OR_RETURN(const elastic::NoteType type, elastic::note_type(bytes));
  switch (type) {
    case elastic::NoteType::kReady:
      return with(elastic::ReadyNote{});
    case elastic::NoteType::kHolds:
      return with(elastic::HoldsNote{});
    case elastic::NoteType::kLeaving:
      return with(elastic::LeavingNote{});
    case elastic::NoteType::kFinished:
      return with(elastic::FinishedNote{});
    default:
      return {Code::kInvalidArgument, "a note that only launchers send"};
  }
}

}  // namespace ronde
