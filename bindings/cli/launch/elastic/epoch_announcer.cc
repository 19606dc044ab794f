#include "bindings/cli/launch/elastic/epoch_announcer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bindings/cli/launch/elastic/worker_notes.h"
#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/this_host.h"

namespace ronde {
namespace {

/// The names of the other hosts, each once.
std::vector<std::string> hosts_but_first(const elastic::BeginEpoch& epoch) {
  std::vector<std::string> others;
  for (const elastic::EpochWorker& worker : epoch.workers) {
    const bool known = worker.host == epoch.workers.front().host ||
                       std::ranges::find(others, worker.host) != others.end();
    if (!known) others.push_back(worker.host);
  }
  return others;
}

}  // namespace

void EpochAnnouncer::begin(elastic::BeginEpoch epoch) {
  pending_.reset();
  pending_void_.reset();
  ProbeMessage probe{interface_, hosts_but_first(epoch)};
  if (probe.towards.empty()) return announce(epoch, {});
  const std::string host = epoch.workers.front().host;
  if (interface_.empty() && addresses_.contains(host)) probe.interface = addresses_[host];
  pending_ = std::move(epoch);
  send_(host, encode(probe));
}

Status EpochAnnouncer::on_probed(const std::string& host, const ProbedMessage& answer) {
  if (!pending_ || pending_->workers.front().host != host) return {};
  if (!answer.error.empty()) return {Code::kInvalidArgument, answer.error};
  addresses_[host] = answer.address;
  const elastic::BeginEpoch epoch = std::move(*std::exchange(pending_, std::nullopt));
  announce(epoch, join_host_port(answer.address, answer.rendezvous_port));
  return {};
}

bool EpochAnnouncer::defer(const elastic::VoidNote& note) {
  if (!pending_ || pending_->epoch != note.epoch) return false;
  pending_void_ = note;
  return true;
}

std::optional<elastic::BeginEpoch> EpochAnnouncer::take_unannounced(const std::string& lost_host) {
  addresses_.erase(lost_host);
  if (!pending_ || pending_->workers.front().host != lost_host) return std::nullopt;
  return std::exchange(pending_, std::nullopt);
}

void EpochAnnouncer::announce(const elastic::BeginEpoch& epoch, const std::string& rendezvous) {
  elastic::EpochNote note;
  note.epoch = epoch.epoch;
  note.job_id = fmt::format("{}-{}", job_, epoch.epoch);
  note.secret = random_hex(32);
  note.rendezvous = rendezvous;
  note.why = epoch.why;
  note.workers = epoch.workers;
  for (const elastic::EpochWorker& worker : epoch.workers) {
    send_(worker.host, note_frame(worker.worker, note));
    ++note.rank;
  }
  const auto end = std::exchange(pending_void_, std::nullopt);
  if (!end) return;
  for (const elastic::EpochWorker& worker : epoch.workers) {
    send_(worker.host, note_frame(worker.worker, *end));
  }
}

}  // namespace ronde
