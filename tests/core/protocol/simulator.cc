#include "tests/core/protocol/simulator.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/core/protocol/payloads.h"

namespace ronde {
namespace {

std::string name_of(const Request& request) { return request.name.empty() ? "#" : request.name; }

}  // namespace

Simulator::Simulator(SimulatorOptions options)
    : options_(std::move(options)), random_(options_.seed), ranks_(options_.members.size()) {
  for (std::size_t member = 0; member < ranks_.size(); ++member) {
    MemberOptions each;
    each.rank = options_.members[member];
    each.members = options_.members;
    each.hosts = options_.hosts;
    each.cache_capacity = options_.cache_capacity;
    each.payload_bytes = options_.payload_bytes;
    each.payloads = carrying(0).payloads;
    ranks_[member].member = std::make_unique<Member>(each);
  }
}

void Simulator::plan(std::size_t member, Action action) {
  ranks_[member].plan.push_back(std::move(action));
}

std::size_t Simulator::pick(std::size_t below) {
  return static_cast<std::size_t>(random_() % below);
}

bool Simulator::can_act(const Rank& rank) const {
  if (rank.dead || rank.joined || rank.plan.empty()) return false;
  const Request& next = rank.plan.front().request;
  if (next.name.empty()) return true;
  return std::none_of(rank.in_flight.begin(), rank.in_flight.end(), [&](const auto& entry) {
    return entry.second.action.request.name == next.name;
  });
}

std::vector<std::size_t> Simulator::actors() const {
  std::vector<std::size_t> actors;
  for (std::size_t member = 0; member < ranks_.size(); ++member) {
    if (can_act(ranks_[member])) actors.push_back(member);
  }
  return actors;
}

std::vector<Simulator::Link> Simulator::busy_links() const {
  std::vector<Link> links;
  for (const auto& [link, frames] : links_) {
    const bool alive = !ranks_[link.first].dead && !ranks_[link.second].dead;
    if (alive && !frames.empty()) links.push_back(link);
  }
  return links;
}

bool Simulator::step() {
  const std::vector<std::size_t> actors = this->actors();
  const std::vector<Link> links = busy_links();
  if (options_.pace && (pick(8) == 0 || (actors.empty() && links.empty())) && release())
    return true;
  if (actors.empty() && links.empty()) return false;
  const std::size_t choice = pick(actors.size() + links.size());
  if (choice < actors.size()) {
    act(actors[choice]);
  } else {
    deliver(links[choice - actors.size()]);
  }
  return true;
}

bool Simulator::sweep() {
  std::vector<std::size_t> actors = this->actors();
  std::vector<Link> links = busy_links();
  std::shuffle(actors.begin(), actors.end(), random_);
  std::shuffle(links.begin(), links.end(), random_);
  const bool any = !actors.empty() || !links.empty();
  while (!actors.empty() || !links.empty()) {
    if (pick(actors.size() + links.size()) < actors.size()) {
      act(actors.back());  // its own acts alone change whether it can
      actors.pop_back();
    } else {
      deliver(links.back());
      links.pop_back();
    }
  }
  return any;
}

void Simulator::run() {
  constexpr std::size_t kLarge = 256;
  while (ranks_.size() < kLarge ? step() : sweep()) {
  }
}

void Simulator::kill(std::size_t member) { ranks_[member].dead = true; }

void Simulator::act(std::size_t member) {
  Rank& rank = ranks_[member];
  // Sometimes several actions travel in one frame.
  for (bool more = true; more && can_act(rank); more = pick(2) == 0) {
    const Action action = rank.plan.front();
    rank.plan.pop_front();
    const std::uint64_t ticket = next_ticket_++;
    if (action.join) {
      rank.joined = true;
      rank.in_flight[ticket] = {action, 0};
      if (!rank.member->join(ticket).ok()) violate(member, "join refused");
      continue;
    }
    rank.in_flight[ticket] = {action, ++rank.submitted[name_of(action.request)]};
    InlinePayload payload = bring(member, action, rank.in_flight[ticket].instance);
    if (!rank.member->submit(action.request, ticket, {}, std::move(payload)).ok()) {
      violate(member, "submit refused");
    }
    if (action.twice &&
        rank.member->submit(action.request, 999, {}).code() != Code::kDuplicateName) {
      violate(member, "a doubled name was not refused");
    }
  }
  collect(member);
}

/// Whole numbers, whose sum is exact.
InlinePayload Simulator::bring(std::size_t member, const Action& action, std::size_t instance) {
  Rank& rank = ranks_[member];
  Brought& brought = brought_[{rank.epoch, name_of(action.request), instance}];
  if (!rank.member->wants_payload(action.request) || pick(16) == 0) {
    brought.by_all = false;
    return {};
  }
  const auto value = static_cast<float>(pick(1000));
  InlinePayload payload = payload_of(action.request, options_.members[member], value);
  if (!payload.ranks.empty()) brought.sum += value;
  return payload;
}

/// The data comes with the agreement if all ranks have brought theirs.
void Simulator::check_result(std::size_t member, const Agreed& item, std::size_t instance) {
  if (!item.status.ok()) return;
  const Brought& brought = brought_[{ranks_[member].epoch, name_of(item.request), instance}];
  std::vector<std::byte> expected;
  if (brought.by_all) {
    expected = bytes_of_floats(std::vector<float>(payload_bytes(item.request) / 4, brought.sum));
  }
  if (item.result != expected) violate(member, "a wrong result came with the agreement");
}

void Simulator::deliver(const Link& link) {
  auto& frames = links_[link];
  const std::vector<std::byte> frame = std::move(frames.front());
  frames.pop_front();
  ++ranks_[link.second].frames;
  if (options_.disturb) disturb(link.second, frame);
  const Status status =
      ranks_[link.second].member->on_frame(options_.members[link.first], frame, {});
  if (!status.ok()) violate(link.second, "frame refused: " + status.message());
  if (pick(3) != 0 || frames.empty()) collect(link.second);  // else: several frames at once
}

void Simulator::disturb(std::size_t to, const std::vector<std::byte>& frame) {
  Member& receiver = *ranks_[to].member;
  const auto part = std::span<const std::byte>(frame).first(pick(frame.size()));
  for (std::size_t from = 0; from < ranks_.size(); ++from) {
    if (receiver.on_frame(options_.members[from], part, {}).ok()) {
      violate(to, "a truncated frame was accepted");
    }
  }
  if (receiver.on_frame(options_.members[to], frame, {}).ok()) {
    violate(to, "its own frame was accepted");
  }
}

/// The coordinator lets some of what is paced go; false where nothing waits.
bool Simulator::release() {
  for (std::size_t member = 0; member < ranks_.size(); ++member) {
    Rank& rank = ranks_[member];
    if (rank.dead || !rank.member->coordinates() || rank.order.paced() == 0) continue;
    rank.member->release(static_cast<std::uint32_t>(1 + pick(rank.order.paced())));
    collect(member);
    return true;
  }
  return false;
}

void Simulator::run_released(std::size_t member, const Batch& batch) {
  Rank& rank = ranks_[member];
  for (const Agreed& item : batch.items) {
    if (!item.status.ok() || item.request.kind == Collective::kJoin) continue;
    const std::string name = name_of(item.request);
    rank.order.add(name, item.priority, options_.pace && name.back() % 2 == 0);
  }
  rank.order.release(batch.released);
  while (const auto name = rank.order.next()) rank.ran.push_back(*name);
  const std::size_t common = std::min(rank.ran.size(), ran_.size());
  if (!std::equal(rank.ran.begin(), rank.ran.begin() + static_cast<std::ptrdiff_t>(common),
                  ran_.begin())) {
    violate(member, "ran in another order than the others");
  }
  ran_.insert(ran_.end(), rank.ran.begin() + static_cast<std::ptrdiff_t>(common), rank.ran.end());
}

void Simulator::collect(std::size_t member) {
  Rank& rank = ranks_[member];
  std::vector<OutFrame> frames;
  std::vector<Batch> batches;
  if (pick(2) == 0) {
    rank.member->take_batches(batches);
    rank.member->take_frames(frames);
  } else {
    rank.member->take_frames(frames);
    rank.member->take_batches(batches);
  }
  rank.frames += frames.size();
  for (OutFrame& frame : frames) {
    links_[{member, index_of(frame.to)}].push_back(std::move(frame.bytes));
  }
  for (Batch& batch : batches) {
    ++rank.batches;
    if (batch.items.empty() && batch.released == 0) violate(member, "an empty batch");
    if (member % options_.check_every == 0) run_released(member, batch);
    for (Agreed& item : batch.items) see(member, std::move(item));
  }
  check_order(member);
}

void Simulator::see(std::size_t member, Agreed item) {
  Rank& rank = ranks_[member];
  const std::string name = name_of(item.request);
  rank.log.push_back({rank.batches, name, item.request.kind, item.status.code(),
                      item.status.message(), item.last_joined, item.priority});
  check_ticket(member, item);
  if (item.request.kind == Collective::kJoin) {
    if (!std::all_of(ranks_.begin(), ranks_.end(),
                     [&](const Rank& other) { return other.joined || other.epoch > rank.epoch; })) {
      violate(member, "a join before all had joined");
    }
    rank.joined = false;
    ++rank.epoch;
    rank.submitted.clear();
    rank.agreed.clear();
    return;
  }
  ++rank.agreed[name];
  check_all_have_submitted(member, name);
}

void Simulator::check_ticket(std::size_t member, const Agreed& item) {
  Rank& rank = ranks_[member];
  if (item.ticket == 0) {
    if (!rank.joined) violate(member, "an item without ticket though it has not joined");
    return;
  }
  const auto found = rank.in_flight.find(item.ticket);
  if (found == rank.in_flight.end()) return violate(member, "a ticket that is not in flight");
  const Action& action = found->second.action;
  const bool same = action.join ? item.request.kind == Collective::kJoin
                                : action.request.name == item.request.name &&
                                      action.request.tensors == item.request.tensors &&
                                      action.request.call_site == item.request.call_site;
  if (!same) violate(member, "an item with another's request");
  if (!action.join) check_result(member, item, found->second.instance);
  const bool named = !action.join && !action.request.name.empty();
  if (named && found->second.instance != rank.agreed[name_of(item.request)] + 1) {
    violate(member, "an operation that overtook an earlier one of its name");
  }
  rank.in_flight.erase(found);
}

void Simulator::check_all_have_submitted(std::size_t member, const std::string& name) {
  if (member % options_.check_every != 0) return;
  const Rank& me = ranks_[member];
  for (std::size_t other = 0; other < ranks_.size(); ++other) {
    const Rank& rank = ranks_[other];
    if (rank.epoch > me.epoch || (rank.epoch == me.epoch && rank.joined)) continue;
    const auto count = rank.submitted.find(name);
    if (rank.epoch < me.epoch || count == rank.submitted.end() ||
        count->second < me.agreed.at(name)) {
      violate(member, fmt::format("\"{}\" agreed before member {} had submitted it", name, other));
    }
  }
}

void Simulator::check_order(std::size_t member) {
  const std::vector<Seen>& log = ranks_[member].log;
  const std::size_t common = std::min(log.size(), order_.size());
  if (!std::equal(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(common), order_.begin())) {
    violate(member, "another order, batch or status than the others saw");
  }
  order_.insert(order_.end(), log.begin() + static_cast<std::ptrdiff_t>(common), log.end());
}

bool Simulator::finished() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.plan.empty() && rank.in_flight.empty() && rank.member->pending() == 0 &&
           rank.log == order_ && rank.order.empty();
  });
}

std::size_t Simulator::index_of(int rank) const {
  const auto found = std::find(options_.members.begin(), options_.members.end(), rank);
  return static_cast<std::size_t>(found - options_.members.begin());
}

void Simulator::violate(std::size_t member, const std::string& what) {
  violations_.push_back(
      fmt::format("seed {}, rank {}: {}", options_.seed, options_.members[member], what));
}

}  // namespace ronde
