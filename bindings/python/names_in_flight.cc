#include "bindings/python/names_in_flight.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ronde::python {
bool NamesInFlight::Entry::in_flight() const {
  const OperationPtr known = operation.lock();
  if (known != nullptr && !known->done()) return true;
  if (*seen || (known != nullptr && !known->status().ok())) return false;
  return std::chrono::steady_clock::now() - since < kUnseen;
}

NamesInFlight& NamesInFlight::of_process() {
  static auto* names = new NamesInFlight();
  return *names;
}

void NamesInFlight::clear() {
  operations_.clear();
  count_ = 0;
}

Status NamesInFlight::check(SetId set, const Request& request) const {
  if (request.name.empty()) return {};
  const auto of_set = operations_.find(set);
  if (of_set == operations_.end()) return {};
  const auto found = of_set->second.find(request.name);
  if (found == of_set->second.end() || !found->second.in_flight()) return {};
  return {Code::kDuplicateName, "\"" + request.name + "\" was submitted by " +
                                    found->second.call_site + " and again by " + request.call_site +
                                    " while it was in flight"};
}

void NamesInFlight::enter(SetId set, const OperationPtr& operation,
                          std::shared_ptr<const bool> seen) {
  const Request& request = operation->submission().request;
  if (request.name.empty()) return;
  const auto [place, added] = operations_[set].try_emplace(request.name);
  Entry& entry = place->second;
  entry.operation = operation;
  entry.seen = std::move(seen);
  entry.call_site = request.call_site;
  entry.since = std::chrono::steady_clock::now();
  if (added && ++count_ >= look_again_at_) forget_ended();
}

void NamesInFlight::forget_ended() {
  count_ = 0;
  for (auto of_set = operations_.begin(); of_set != operations_.end();) {
    std::erase_if(of_set->second, [](const auto& named) { return !named.second.in_flight(); });
    count_ += of_set->second.size();
    of_set = of_set->second.empty() ? operations_.erase(of_set) : std::next(of_set);
  }
  look_again_at_ = std::max<std::size_t>(1024, 2 * count_);
}

}  // namespace ronde::python
