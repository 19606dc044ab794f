#include "core/elastic/participant.h"

#include <utility>

namespace ronde::elastic {

ReadyNote Participant::ready() const {
  ReadyNote note;
  note.began = began;
  note.holds_state = holds_state;
  note.can_resume = has_copies || has_checkpoint;
  note.suspects.assign(suspects_.begin(), suspects_.end());
  note.why = why_;
  return note;
}

void Participant::answered() {
  began = false;
  suspects_.clear();
  why_.clear();
}

void Participant::placed(EpochNote place) {
  answered();
  place_ = std::move(place);
}

void Participant::failed(const std::string& why, int rank) {
  if (why_.empty()) why_ = why;
  const auto place = static_cast<std::size_t>(rank);  // a negative one is too large
  if (place_ && place < place_->workers.size()) suspects_.insert(place_->workers[place].worker);
}

}  // namespace ronde::elastic
