#include "bindings/cli/launch/rank_endings.h"

#include <utility>

namespace ronde {

void RankEndings::add(const std::string& host, const RankMessage& message, bool asked) {
  HeldErrors::Ending ending = console_.held().take(message.rank);
  RankEnd end{.rank = message.rank,
              .pid = message.pid,
              .host = host,
              .wait_status = message.wait_status,
              .asked = asked,
              .printed = ending.printed,
              .failed_at = now(),
              .earlier_error = console_.held().earliest_but(message.rank),
              .error = read_error(ending.text),
              .last_line = std::move(ending.last_line)};
  if (end.error) {
    end.failed_at = ending.since;
  } else if (!ending.printed) {
    console_.pass_on_held(message.rank, ending.text);
  }
  console_.print(message.rank, report_.add(std::move(end)));
}

void RankEndings::add_ranks_of_mpirun(int wait_status) {
  for (const int rank : console_.held().ranks()) add("", {rank, 0, wait_status}, false);
}

void RankEndings::print_left() {
  for (const int rank : console_.held().ranks()) {
    const HeldErrors::Ending left = console_.held().take(rank);
    if (!left.printed) console_.pass_on_held(rank, left.text);
  }
}

void RankEndings::explain() {
  if (cause() != nullptr) console_.print(cause()->rank, report_.missing_traceback());
  for (const std::string& sentence : report_.summary()) console_.say(sentence);
}

}  // namespace ronde
