#include "bindings/python/names_in_flight.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ronde::python {
namespace {

std::string key_of(SetId set, const std::string& name) {
  return std::to_string(static_cast<long long>(set)) + "/" + name;
}

}  // namespace

bool NamesInFlight::Entry::in_flight() const {
  const OperationPtr known = operation.lock();
  if (known != nullptr && !known->done()) return true;
  if (*seen || (known != nullptr && !known->status().ok())) return false;
  return std::chrono::steady_clock::now() - since < kUnseen;
}

Status NamesInFlight::check(SetId set, const Request& request) const {
  if (request.name.empty()) return {};
  const auto found = operations_.find(key_of(set, request.name));
  if (found == operations_.end() || !found->second.in_flight()) return {};
  return {Code::kDuplicateName, "\"" + request.name + "\" was submitted by " +
                                    found->second.call_site + " and again by " + request.call_site +
                                    " while it was in flight"};
}

void NamesInFlight::enter(SetId set, const OperationPtr& operation,
                          std::shared_ptr<const bool> seen) {
  const Request& request = operation->submission().request;
  if (request.name.empty()) return;
  operations_.insert_or_assign(
      key_of(set, request.name),
      Entry{operation, std::move(seen), request.call_site, std::chrono::steady_clock::now()});
  if (operations_.size() >= look_again_at_) forget_ended();
}

void NamesInFlight::forget_ended() {
  for (auto it = operations_.begin(); it != operations_.end();) {
    it = it->second.in_flight() ? std::next(it) : operations_.erase(it);
  }
  look_again_at_ = std::max<std::size_t>(1024, 2 * operations_.size());
}

}  // namespace ronde::python
