#include "bindings/python/names_in_flight.h"

#include <algorithm>
#include <iterator>

namespace ronde::python {
namespace {

std::string key_of(SetId set, const std::string& name) {
  return std::to_string(static_cast<long long>(set)) + "/" + name;
}

}  // namespace

Status NamesInFlight::check(SetId set, const Request& request) const {
  if (request.name.empty()) return {};
  const auto found = operations_.find(key_of(set, request.name));
  if (found == operations_.end()) return {};
  const OperationPtr earlier = found->second.lock();
  if (earlier == nullptr || earlier->done()) return {};
  return {Code::kDuplicateName, "\"" + request.name + "\" was submitted by " +
                                    earlier->submission().request.call_site + " and again by " +
                                    request.call_site + " while it was in flight"};
}

void NamesInFlight::enter(SetId set, const OperationPtr& operation) {
  const std::string& name = operation->submission().request.name;
  if (name.empty()) return;
  operations_.insert_or_assign(key_of(set, name), operation);
  if (operations_.size() >= look_again_at_) forget_ended();
}

void NamesInFlight::forget_ended() {
  for (auto it = operations_.begin(); it != operations_.end();) {
    const OperationPtr operation = it->second.lock();
    it = operation == nullptr || operation->done() ? operations_.erase(it) : std::next(it);
  }
  look_again_at_ = std::max<std::size_t>(1024, 2 * operations_.size());
}

}  // namespace ronde::python
