#include "bindings/cli/launch/elastic/epoch_announcer.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "bindings/cli/launch/elastic/workers.h"
#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/this_host.h"
#include "core/base/join_text.h"

namespace ronde {
namespace {

constexpr std::size_t kMostJoiners = 8;

std::string plural(std::size_t count) {
  return fmt::format("{} worker{}", count, count == 1 ? "" : "s");
}

/// "worker 5 joins", "workers 5 and 6 join", "20 workers join".
std::string joiners_text(const std::vector<elastic::WorkerId>& joiners) {
  if (joiners.size() == 1) return fmt::format("worker {} joins", joiners.front());
  if (joiners.size() > kMostJoiners) return plural(joiners.size()) + " join";
  return fmt::format("workers {} and {} join",
                     join_text(std::span(joiners).first(joiners.size() - 1), ", "), joiners.back());
}

/// The ranks in order. A host has several stretches once a worker has been replaced.
std::vector<HostRanks> stretches_of(const elastic::BeginEpoch& epoch) {
  std::vector<HostRanks> stretches;
  int rank = 0;
  for (const elastic::EpochWorker& worker : epoch.workers) {
    const bool goes_on = !stretches.empty() && stretches.back().name == worker.host;
    if (!goes_on) stretches.push_back({worker.host, rank, 0});
    ++stretches.back().ranks;
    ++rank;
  }
  return stretches;
}

}  // namespace

std::string EpochText::begin(const elastic::BeginEpoch& epoch) {
  std::set<elastic::WorkerId> members;
  std::vector<elastic::WorkerId> joiners;
  for (const elastic::EpochWorker& worker : epoch.workers) {
    members.insert(worker.worker);
    if (!members_.contains(worker.worker)) joiners.push_back(worker.worker);
  }
  const std::size_t before = members_.size();
  const std::size_t stay = members.size() - joiners.size();
  members_ = std::move(members);
  std::string text = fmt::format("epoch {}: ", epoch.epoch);
  if (before == 0)
    return text + plural(members_.size()) + (members_.size() == 1 ? " begins" : " begin");
  text += fmt::format("{} of {} {}", stay, plural(before), stay == 1 ? "goes on" : "go on");
  if (!joiners.empty()) text += ", " + joiners_text(joiners);
  return text + (epoch.why.empty() ? "" : "; " + epoch.why);
}

std::size_t EpochAnnouncer::Pending::number_of(const std::string& host) const {
  const auto found = std::ranges::find(probe.hosts(), host);
  return static_cast<std::size_t>(found - probe.hosts().begin());
}

void EpochAnnouncer::begin(elastic::BeginEpoch epoch) {
  pending_.reset();
  std::vector<std::string> hosts = host_names(stretches_of(epoch));
  if (hosts.size() == 1) return send_notes(epoch, note_of(epoch), {});
  const Pending& pending = pending_.emplace(
      Pending{std::move(epoch), RendezvousProbe({.hosts = std::move(hosts),
                                                 .interface = args_.interface,
                                                 .say_if_verbose = args_.say_if_verbose})});
  for (std::size_t number = 0; number < pending.probe.asked(); ++number) {
    const std::string& host = pending.probe.hosts()[number];
    ProbeMessage question = pending.probe.question(number);
    if (args_.interface.empty() && addresses_.contains(host)) question.interface = addresses_[host];
    args_.send(host, encode(question));
  }
}

Status EpochAnnouncer::on_probed(const std::string& host, const ProbedMessage& answer) {
  if (!pending_) return {};
  addresses_.erase(host);
  if (answer.error.empty()) addresses_.emplace(host, answer.address);
  RONDE_RETURN_IF_ERROR(pending_->probe.take(pending_->number_of(host), answer));
  if (pending_->probe.complete()) announce(*std::exchange(pending_, std::nullopt));
  return {};
}

bool EpochAnnouncer::defer(const elastic::VoidNote& note) {
  if (!pending_ || pending_->epoch.epoch != note.epoch) return false;
  pending_->end = note;
  return true;
}

std::optional<elastic::BeginEpoch> EpochAnnouncer::take_unannounced(const std::string& lost_host) {
  addresses_.erase(lost_host);
  if (!pending_ || pending_->number_of(lost_host) == pending_->probe.asked()) return std::nullopt;
  return std::exchange(pending_, std::nullopt)->epoch;
}

void EpochAnnouncer::announce(const Pending& pending) {
  const std::vector<Rendezvous> places = pending.probe.places();
  elastic::EpochNote note = note_of(pending.epoch);
  note.rendezvous = join_host_port(places.front().address, places.front().rendezvous_port);
  std::map<std::string, std::string> trees;
  if (places.size() == pending.probe.asked()) {
    std::vector<std::string> texts = rendezvous_trees(stretches_of(pending.epoch), places);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      trees.emplace(pending.probe.hosts()[i], std::move(texts[i]));
    }
  }
  send_notes(pending.epoch, std::move(note), trees);
  if (!pending.end) return;
  for (const elastic::EpochWorker& worker : pending.epoch.workers) {
    args_.send(worker.host, note_frame(worker.worker, *pending.end));
  }
}

/// The note without a rank and a tree.
elastic::EpochNote EpochAnnouncer::note_of(const elastic::BeginEpoch& epoch) const {
  elastic::EpochNote note;
  note.epoch = epoch.epoch;
  note.job_id = fmt::format("{}-{}", args_.job, epoch.epoch);
  note.secret = random_hex(32);
  note.why = epoch.why;
  note.workers = epoch.workers;
  return note;
}

/// `trees`: by host; empty where all meet at rank 0.
void EpochAnnouncer::send_notes(const elastic::BeginEpoch& epoch, elastic::EpochNote note,
                                const std::map<std::string, std::string>& trees) {
  for (const elastic::EpochWorker& worker : epoch.workers) {
    if (!trees.empty()) note.rendezvous_tree = trees.at(worker.host);
    args_.send(worker.host, note_frame(worker.worker, note));
    ++note.rank;
  }
}

}  // namespace ronde
