// What this rank's engine calls: submissions, joins and taking results out.
#include "core/protocol/negotiator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/protocol/negotiator_impl.h"
#include "core/protocol/signature.h"

namespace ronde {
namespace {

std::vector<int> source_ranks(int rank, const TreePlace& place) {
  std::vector<int> ranks = {rank};
  ranks.insert(ranks.end(), place.children.begin(), place.children.end());
  return ranks;
}

std::string at_site(const std::string& site) {
  return site.empty() ? std::string() : fmt::format(" ({})", site);
}

}  // namespace

Negotiator::Impl::Impl(NegotiatorOptions options)
    : options_(std::move(options)),
      place_(place_in_tree(options_.rank, options_.members, options_.hosts)),
      cache_(options_.cache_capacity),
      aggregator_(source_ranks(options_.rank, place_), cache_),
      acked_(place_.children.size() + 1, 0) {}

Status Negotiator::Impl::submit(const Request& request, std::uint64_t ticket, TimePoint now) {
  if (closed()) return closed_;
  if (join_ticket_ != 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} \"{}\": submitted after join, before all ranks have joined",
                              to_string(request.kind), request.name));
  }
  const int slot = request.name.empty() ? -1 : cache_.find(request.name);
  if (slot < 0 || own_.find(slot) != nullptr || own_.has_keyed() || !owed_.empty() ||
      !stands_for(*cache_.at(slot), request)) {
    return submit_otherwise(request, ticket, now);
  }
  own_.add(slot, ticket, request, now);
  watch_from(request, now);
  aggregator_.add_bit(kSelf, slot);
  move_completed_up();
  return {};
}

Status Negotiator::Impl::submit_otherwise(const Request& request, std::uint64_t ticket,
                                          TimePoint now) {
  const OpKey key{request.name, request.name.empty() ? ++unnamed_ : 0};
  if (const OwnOperation* in_flight = own_in_flight(key)) {
    return refuse_duplicate(*in_flight, request, key);
  }
  if (const auto owed = owed_.find(key); owed != owed_.end()) {
    const Status status = owed->second;
    owed_.erase(owed);
    return status;
  }
  const int slot = key.name.empty() ? cache_.find_unnamed(request) : cache_.find(key.name);
  const bool is_known = slot >= 0 && stands_for(*cache_.at(slot), request);
  watch_from(request, now);
  if (is_known && !key.name.empty()) {
    own_.add(slot, ticket, request, now);
    aggregator_.add_bit(kSelf, slot);
  } else {
    own_.add(key, ticket, request, now);
    report_own(request, key, is_known ? slot : -1);
  }
  move_completed_up();
  return {};
}

Status Negotiator::Impl::refuse_duplicate(const OwnOperation& in_flight, const Request& again,
                                          const OpKey& key) {
  const std::string message =
      fmt::format("{}: rank {} submitted it{} and again{} while it was in flight",
                  label(in_flight.request.kind, key), options_.rank,
                  at_site(in_flight.request.call_site), at_site(again.call_site));
  apply_notice(kSelf, {key, message});
  return Status(Code::kDuplicateName, message);
}

void Negotiator::Impl::report_own(const Request& request, const OpKey& key, int slot) {
  Report report;
  report.ordinal = key.ordinal;
  report.slot = slot;
  report.rank = options_.rank;
  report.request = slot >= 0 ? cache_.at(slot) : std::make_shared<const Request>(request);
  if (is_rooted(request.kind) && !is_member(request.root)) {
    report.code = Code::kInvalidArgument;
    report.message = fmt::format("{}: rank {} submitted root {}{}, which is not in the process set",
                                 label(request.kind, key), options_.rank, request.root,
                                 at_site(request.call_site));
  }
  aggregator_.add_report(kSelf, std::move(report));
}

Status Negotiator::Impl::join(std::uint64_t ticket) {
  if (closed()) return closed_;
  if (join_ticket_ != 0) {
    return Status(Code::kInvalidArgument, "join called again before all ranks have joined");
  }
  join_ticket_ = ticket;
  aggregator_.join(kSelf, options_.rank);
  move_completed_up();
  return {};
}

const OwnOperation* Negotiator::Impl::own_in_flight(const OpKey& key) const {
  if (!key.name.empty()) {
    if (const OwnOperation* found = own_.find(cache_.find(key.name))) return found;
  }
  return own_.find(key);
}

void Negotiator::Impl::take_frames(std::vector<OutFrame>& out) {
  agree();
  flush_tick();
  stats_.frames_sent += frames_.size();
  std::move(frames_.begin(), frames_.end(), std::back_inserter(out));
  frames_.clear();
}

void Negotiator::Impl::take_batches(std::vector<Batch>& out) {
  agree();
  std::move(batches_.begin(), batches_.end(), std::back_inserter(out));
  batches_.clear();
}

void Negotiator::Impl::take_warnings(std::vector<std::string>& out) {
  std::move(warnings_.begin(), warnings_.end(), std::back_inserter(out));
  warnings_.clear();
}

std::vector<std::string> Negotiator::Impl::describe_pending() {
  std::vector<std::string> lines;
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    std::vector<int> missing;
    for (std::size_t i = 0; i < place_.children.size(); ++i) {
      if (!aggregator_.has(static_cast<int>(i) + 1, key)) missing.push_back(place_.children[i]);
    }
    lines.push_back(label(operation.request.kind, key));
    if (!missing.empty()) {
      lines.back() +=
          fmt::format(": not yet heard from or through ranks {}", fmt::join(missing, ", "));
    }
  });
  return lines;
}

Negotiator::Negotiator(NegotiatorOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
Negotiator::~Negotiator() = default;

Status Negotiator::submit(const Request& request, std::uint64_t ticket, TimePoint now) {
  return impl_->submit(request, ticket, now);
}
Status Negotiator::join(std::uint64_t ticket, TimePoint) { return impl_->join(ticket); }
void Negotiator::leave(TimePoint, std::string_view why) { impl_->leave(why); }
void Negotiator::declare_blocked(std::span<const std::uint64_t> tickets, const BlockedFlag& blocked,
                                 TimePoint now) {
  impl_->declare_blocked(tickets, blocked, now);
}
bool Negotiator::closed() const { return impl_->closed(); }
bool Negotiator::coordinates() const { return impl_->is_root(); }
void Negotiator::release(std::uint32_t bundles) { impl_->release(bundles); }
void Negotiator::order_launch(std::uint64_t set) { impl_->order_launch(set); }
Status Negotiator::on_frame(int from, std::span<const std::byte> frame, TimePoint now) {
  return impl_->on_frame(from, frame, now);
}
void Negotiator::on_time(TimePoint now) { impl_->on_time(now); }
TimePoint Negotiator::next_deadline() const { return impl_->next_deadline(); }
void Negotiator::take_frames(std::vector<OutFrame>& out) { impl_->take_frames(out); }
void Negotiator::take_batches(std::vector<Batch>& out) { impl_->take_batches(out); }
void Negotiator::take_warnings(std::vector<std::string>& out) { impl_->take_warnings(out); }
std::size_t Negotiator::pending() const { return impl_->pending(); }
std::vector<std::string> Negotiator::describe_pending() const { return impl_->describe_pending(); }
const NegotiatorStats& Negotiator::stats() const { return impl_->stats(); }

}  // namespace ronde
