// Notes between a worker of an elastic job and its launcher. A worker is one process that the
// launcher started; its number never changes and is never used again. An epoch is one job of fixed
// ranks; a worker takes part in one after another.
//
// Each note is one message of a Unix SOCK_SEQPACKET socket, whose end the worker finds in
// RONDE_ELASTIC_FD: a byte for the type, then the fields in the wire codec. The end of the socket
// means that the launcher is gone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/base/wire_codec.h"

namespace ronde::elastic {

/// The variable with the descriptor of the socket.
inline constexpr const char* kNotesVariable = "RONDE_ELASTIC_FD";
/// The variable with the worker's number.
inline constexpr const char* kWorkerVariable = "RONDE_WORKER";
/// The variables with the memory files of the copies of a worker that has died. The host's agent
/// gives them to the next worker that it starts.
inline constexpr std::array<const char*, 2> kCopyVariables = {"RONDE_ELASTIC_COPY0_FD",
                                                              "RONDE_ELASTIC_COPY1_FD"};

inline constexpr std::size_t kMaxNoteBytes = std::size_t{1} << 20;

using WorkerId = std::uint64_t;  ///< From 1; 0: none.
using EpochId = std::uint64_t;   ///< From 1; 0: none yet.

/// Worker to launcher: ready, holds, leaving, finished. Worker to its agent alone: copy. Launcher
/// to worker: the others.
enum class NoteType : std::uint8_t {
  kReady = 1,
  kHolds = 2,
  kLeaving = 3,
  kFinished = 4,
  kEpoch = 5,
  kChanged = 6,
  kDismissed = 7,
  kCopy = 8,
  kVoid = 9,
};

/// The worker is in no epoch and waits for the next one.
struct ReadyNote {
  static constexpr NoteType kType = NoteType::kReady;
  EpochId last_epoch = 0;          ///< The last one that it was given; 0: none.
  bool began = false;              ///< Its ranks were connected.
  bool holds_state = false;        ///< It has a committed state, from which others can start.
  bool can_resume = false;         ///< It can load a checkpoint if nobody holds the state.
  std::vector<WorkerId> suspects;  ///< Workers that it has lost.
  std::string why;                 ///< The end of the last epoch, for people; empty: a change.

  static void fields(auto& wire, auto& self) {
    wire(self.last_epoch, self.began, self.holds_state, self.can_resume, self.suspects, self.why);
  }
};

/// The worker has a committed state from now on.
struct HoldsNote {
  static constexpr NoteType kType = NoteType::kHolds;
  bool holds_state = true;
  static void fields(auto& wire, auto& self) { wire(self.holds_state); }
};

/// The worker was asked to end. It takes part until its next commit, then waits to be dismissed.
struct LeavingNote {
  static constexpr NoteType kType = NoteType::kLeaving;
  std::string why;
  static void fields(auto& wire, auto& self) { wire(self.why); }
};

/// The worker's function has returned: there is no epoch after this one.
struct FinishedNote {
  static constexpr NoteType kType = NoteType::kFinished;
  EpochId epoch = 0;
  static void fields(auto& wire, auto& self) { wire(self.epoch); }
};

/// One worker of an epoch.
struct EpochWorker {
  WorkerId worker = 0;
  std::string host;
  bool holds_state = false;
  static void fields(auto& wire, auto& self) { wire(self.worker, self.host, self.holds_state); }
};

/// The worker's place in a new epoch. The first ranks are those that hold the state; they keep
/// their order.
struct EpochNote {
  static constexpr NoteType kType = NoteType::kEpoch;
  EpochId epoch = 0;
  std::int32_t rank = 0;
  std::string job_id;                ///< Of this epoch alone.
  std::string secret;                ///< Of this epoch alone: 64 hexadecimal digits.
  std::string rendezvous;            ///< "host:port"; empty: one host.
  std::string rendezvous_tree;       ///< RONDE_RENDEZVOUS_TREE; empty: all meet at `rendezvous`.
  std::string why;                   ///< The cause of the epoch, for people.
  std::vector<EpochWorker> workers;  ///< By rank.

  static void fields(auto& wire, auto& self) {
    wire(self.epoch, self.rank, self.job_id, self.secret, self.rendezvous, self.rendezvous_tree,
         self.why, self.workers);
  }
};

/// How the workers change; the bits of kMixed. (Horovod's numbers are the other way round.)
enum class Change : std::uint8_t { kAdded = 1, kRemoved = 2, kMixed = 3 };

/// Workers wait to join, or are to leave: the epoch should end at its next commit.
struct ChangedNote {
  static constexpr NoteType kType = NoteType::kChanged;
  EpochId epoch = 0;         ///< The epoch that should end.
  std::uint64_t serial = 0;  ///< Grows with each change of the job.
  Change change = Change::kAdded;

  static void fields(auto& wire, auto& self) { wire(self.epoch, self.serial, self.change); }
};

/// A member of the epoch is gone. If the epoch's ranks are not connected yet, they never will be:
/// the worker should wait for the next one.
struct VoidNote {
  static constexpr NoteType kType = NoteType::kVoid;
  EpochId epoch = 0;
  std::string why;
  static void fields(auto& wire, auto& self) { wire(self.epoch, self.why); }
};

/// The job has no place for the worker any more; it should end.
struct DismissedNote {
  static constexpr NoteType kType = NoteType::kDismissed;
  bool failed = false;  ///< The job cannot go on: an error. Else the worker has done its part.
  std::string why;
  static void fields(auto& wire, auto& self) { wire(self.failed, self.why); }
};

/// The memory file of a copy of the worker's state, whose descriptor comes with the note. The agent
/// keeps it, so that it outlives the worker; a later file of the same number replaces it.
struct CopyNote {
  static constexpr NoteType kType = NoteType::kCopy;
  std::uint8_t copy = 0;  ///< 0 or 1.
  static void fields(auto& wire, auto& self) { wire(self.copy); }
};

/// A note as one message.
template <typename Note>
std::string encode_note(const Note& note) {
  return static_cast<char>(Note::kType) + encode_wire<std::string>(note);
}

/// The type of a message. Errors: kInvalidArgument where there is no such type.
inline Result<NoteType> note_type(std::string_view message) {
  const auto type = message.empty() ? 0 : static_cast<unsigned char>(message.front());
  if (type < 1 || type > 9) return Status(Code::kInvalidArgument, "a note of an unknown type");
  return static_cast<NoteType>(type);
}

/// A message of this type. Errors: kInvalidArgument where it is malformed.
template <typename Note>
Result<Note> decode_note(std::string_view message) {
  if (message.empty()) return Status(Code::kInvalidArgument, "an empty note");
  return decode_wire<Note>(as_bytes(message.substr(1)), "note of an elastic job");
}

}  // namespace ronde::elastic
