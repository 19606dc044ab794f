#include "core/engine/peers/key_value_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/wire_codec.h"
#include "core/engine/frames/frame.h"
#include "core/ports/control_channel.h"

namespace ronde {
namespace {

/// Kinds of messages of an exchange. Values travel on the wire.
enum class Kind : std::uint8_t { kUp = 1, kDown, kFailure, kQuestion, kAnswer };

/// The first fields of each message.
struct Head {
  std::uint32_t round = 0;
  Kind kind = Kind::kUp;

  static void fields(auto& wire, auto& self) { wire(self.round, self.kind); }
};

/// A piece of the values of a part of the tree.
struct Piece {
  std::map<int, std::string> values;  ///< By rank.
  bool last = true;

  static void fields(auto& wire, auto& self) { wire(self.values, self.last); }
};

constexpr std::size_t kPieceBytes = kMaxFrameBytes / 4;  // a larger value travels alone

template <typename Body>
std::vector<std::byte> message(const ExchangeId& id, Kind kind, const Body& body) {
  WireWriter writer;
  writer(Head{id.round, kind}, body);
  return writer.take();
}

}  // namespace

/// Asks who is missing. It goes up the tree, and from each rank there down to those not heard of.
struct KeyValueExchange::Question {
  int origin = -1;  ///< Gets the answers.
  bool down = false;
  std::vector<int> ranks;

  static void fields(auto& wire, auto& self) { wire(self.origin, self.down, self.ranks); }
};

/// The ranks that the sender waits for, and how many others it has asked.
struct KeyValueExchange::Answer {
  std::vector<int> missing;
  std::int32_t asked = 0;

  static void fields(auto& wire, auto& self) { wire(self.missing, self.asked); }
};

void KeyValueExchange::Round::end() {
  std::vector<std::string> all;
  for (const int rank : ranks) {
    const auto found = values.find(rank);
    if (found == values.end()) {
      outcome = Status(Code::kInternal, fmt::format("rank {} has no value in the exchange", rank));
      return;
    }
    all.push_back(found->second);
  }
  outcome = std::move(all);
}

void KeyValueExchange::Round::take_answer(const std::vector<int>& more_missing,
                                          int more_questions) {
  missing.insert(more_missing.begin(), more_missing.end());
  open_questions += more_questions;
  asked = true;
}

bool KeyValueExchange::is_valid(int rank) const { return rank >= 0 && rank < topology_.size(); }

TreePlace KeyValueExchange::place_of(int rank, const std::vector<int>& ranks) const {
  std::vector<int> hosts;
  for (const int each : ranks) {
    hosts.push_back(topology_.peers[static_cast<std::size_t>(each)].host_index);
  }
  return place_in_tree(rank, ranks, hosts);
}

void KeyValueExchange::begin(const ExchangeId& id, std::vector<int> ranks, std::string mine) {
  const MutexLock lock(mutex_);
  Round& round = rounds_[id];
  round.place = place_of(topology_.rank, ranks);
  round.ranks = std::move(ranks);
  round.values[topology_.rank] = std::move(mine);
  if (round.outcome) return fail(id, round, round.outcome->status(), -1);  // it failed before
  if (const auto why = why_hopeless(round)) return fail(id, round, *why, -1);
  advance(id, round);
}

/// The reason of a rank that has left and that `round` waits for.
std::optional<Status> KeyValueExchange::why_hopeless(const Round& round) const {
  for (const auto& [rank, reason] : left_) {
    const bool is_child = std::ranges::count(round.place.children, rank) > 0;
    if (rank == round.place.parent || (is_child && !round.complete.contains(rank))) return reason;
  }
  return std::nullopt;
}

/// Sends what was gathered on, once it is complete.
void KeyValueExchange::advance(const ExchangeId& id, Round& round) {
  const bool gathered = round.begun() && std::ranges::all_of(round.place.children, [&](int child) {
                          return round.complete.contains(child);
                        });
  if (round.outcome || !gathered) return;
  if (!round.place.is_root()) return send_values(round.place.parent, id, round.values, false);
  end(id, round);
}

void KeyValueExchange::send_values(int to, const ExchangeId& id, const Values& values, bool down) {
  const Kind kind = down ? Kind::kDown : Kind::kUp;
  Piece piece{.values = {}, .last = false};
  std::size_t bytes = 0;
  for (const auto& [rank, value] : values) {
    if (bytes > 0 && bytes + value.size() > kPieceBytes) {
      sender_.add(to, message(id, kind, piece));
      piece.values.clear();
      bytes = 0;
    }
    piece.values.emplace(rank, value);
    bytes += sizeof rank + sizeof(std::uint32_t) + value.size();
  }
  piece.last = true;
  sender_.add(to, message(id, kind, piece));
  sender_.send(EnginePart::kExchange, id.key);
}

/// All values are here: tells the children, and forgets the round where no caller waits.
void KeyValueExchange::end(const ExchangeId& id, Round& round) {
  round.end();
  if (!round.outcome->ok()) return fail(id, round, round.outcome->status(), -1);
  for (const int child : round.place.children) send_values(child, id, round.values, true);
  if (round.abandoned) rounds_.erase(id);
}

/// Ends the round by an error, here and at the neighbours but `except`.
void KeyValueExchange::fail(const ExchangeId& id, Round& round, const Status& why, int except) {
  if (!round.outcome) round.outcome = why;
  std::vector<int> neighbours = round.place.children;
  if (!round.place.is_root()) neighbours.push_back(round.place.parent);
  for (const int rank : neighbours) {
    if (rank != except) sender_.add(rank, message(id, Kind::kFailure, why));
  }
  sender_.send(EnginePart::kExchange, id.key);
  if (round.abandoned) rounds_.erase(id);
}

Status KeyValueExchange::on_frame(int from, std::uint64_t key, std::span<const std::byte> payload) {
  WireReader reader(payload, "exchange frame");
  Head head;
  reader(head);
  RONDE_RETURN_IF_ERROR(reader.status());
  const ExchangeId id{key, head.round};
  const MutexLock lock(mutex_);
  switch (head.kind) {
    case Kind::kUp:
    case Kind::kDown:
      return on_values(id, from, head.kind == Kind::kDown, reader);
    case Kind::kFailure:
      return on_failure(id, from, reader);
    case Kind::kQuestion:
      return on_question(id, from, reader);
    case Kind::kAnswer:
      return on_answer(id, reader);
  }
  reader.require(false, "its kind is unknown");
  return reader.status();
}

Status KeyValueExchange::on_values(const ExchangeId& id, int from, bool down, WireReader& reader) {
  Piece read;
  reader(read);
  RONDE_RETURN_IF_ERROR(reader.finish());
  Round& round = rounds_[id];
  if (down && !round.begun()) {
    return {Code::kInvalidArgument, "all values, before this rank gave its own"};
  }
  round.values.merge(read.values);
  if (!down) {
    if (read.last) round.complete.insert(from);
    advance(id, round);
  } else if (read.last && !round.outcome) {
    end(id, round);
  }
  return {};
}

Status KeyValueExchange::on_failure(const ExchangeId& id, int from, WireReader& reader) {
  Status why;
  reader(why);
  reader.require(!why.ok(), "it is no error");
  RONDE_RETURN_IF_ERROR(reader.finish());
  Round& round = rounds_[id];
  if (!round.outcome) fail(id, round, why, from);
  return {};
}

Status KeyValueExchange::on_question(const ExchangeId& id, int from, WireReader& reader) {
  Question question;
  reader(question);
  reader.require(
      is_valid(question.origin) &&
          std::ranges::all_of(question.ranks, [this](int rank) { return is_valid(rank); }) &&
          std::ranges::is_sorted(question.ranks, std::ranges::less_equal()) &&
          std::ranges::binary_search(question.ranks, topology_.rank),
      "its ranks are impossible");
  RONDE_RETURN_IF_ERROR(reader.finish());
  const Answer answer = look_for_missing(id, question, from);
  sender_.add(question.origin, message(id, Kind::kAnswer, answer));
  sender_.send(EnginePart::kExchange, id.key);
  return {};
}

Status KeyValueExchange::on_answer(const ExchangeId& id, WireReader& reader) {
  Answer answer;
  reader(answer);
  RONDE_RETURN_IF_ERROR(reader.finish());
  const auto asking = rounds_.find(id);
  if (asking != rounds_.end()) asking->second.take_answer(answer.missing, answer.asked - 1);
  return {};
}

/// Finds whom this rank waits for itself, and passes the question on to ranks that may know more.
KeyValueExchange::Answer KeyValueExchange::look_for_missing(const ExchangeId& id,
                                                            const Question& question, int from) {
  Answer answer;
  const auto found = rounds_.find(id);
  const Round* const round = found == rounds_.end() ? nullptr : &found->second;
  if (round != nullptr && round->outcome) return answer;
  if (round == nullptr || !round->begun()) answer.missing.push_back(topology_.rank);
  const auto pass_on = [&](int to, bool down) {
    sender_.add(to, message(id, Kind::kQuestion, Question{question.origin, down, question.ranks}));
    ++answer.asked;
  };
  const TreePlace place = place_of(topology_.rank, question.ranks);
  for (const int child : place.children) {
    if (child == from || (round != nullptr && round->complete.contains(child))) continue;
    const bool is_leaf = place_of(child, question.ranks).children.empty();
    is_leaf ? answer.missing.push_back(child) : pass_on(child, true);
  }
  if (!question.down && !place.is_root()) pass_on(place.parent, false);
  sender_.send(EnginePart::kExchange, id.key);
  return answer;
}

void KeyValueExchange::ask_who_is_missing(const ExchangeId& id) {
  const MutexLock lock(mutex_);
  const auto found = rounds_.find(id);
  if (found == rounds_.end()) return;
  const Question question{topology_.rank, false, found->second.ranks};
  const Answer answer = look_for_missing(id, question, topology_.rank);
  found->second.take_answer(answer.missing, answer.asked);
}

void KeyValueExchange::on_left(int rank, const Status& reason) {
  const MutexLock lock(mutex_);
  left_.emplace(rank, reason);
  std::vector<ExchangeId> hopeless;
  for (const auto& [id, round] : rounds_) {
    if (round.begun() && !round.outcome && why_hopeless(round)) hopeless.push_back(id);
  }
  for (const ExchangeId& id : hopeless) fail(id, rounds_[id], reason, rank);
}

std::optional<KeyValueExchange::Outcome> KeyValueExchange::take(const ExchangeId& id) {
  const MutexLock lock(mutex_);
  const auto found = rounds_.find(id);
  if (found == rounds_.end() || !found->second.begun() || !found->second.outcome) return {};
  Outcome outcome = *std::move(found->second.outcome);
  rounds_.erase(found);
  return outcome;
}

void KeyValueExchange::abandon(const ExchangeId& id) {
  const MutexLock lock(mutex_);
  const auto found = rounds_.find(id);
  if (found == rounds_.end()) return;
  found->second.abandoned = true;
  if (found->second.outcome) rounds_.erase(found);
}

std::optional<std::vector<int>> KeyValueExchange::missing(const ExchangeId& id, bool all) {
  const MutexLock lock(mutex_);
  const auto found = rounds_.find(id);
  if (found == rounds_.end()) return std::vector<int>();
  const Round& round = found->second;
  if (all && (!round.asked || round.open_questions > 0)) return std::nullopt;
  return std::vector<int>(round.missing.begin(), round.missing.end());
}

}  // namespace ronde
