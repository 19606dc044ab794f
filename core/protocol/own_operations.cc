#include "core/protocol/own_operations.h"

#include <utility>

namespace ronde {

void OwnOperations::add(int slot, std::uint64_t ticket, const Request& request, TimePoint now) {
  const auto index = static_cast<std::size_t>(slot);
  if (by_slot_.size() <= index) by_slot_.resize(index + 1);
  by_slot_[index].emplace(OwnOperation{ticket, request, now, now});
  ++size_;
}

void OwnOperations::add(const OpKey& key, std::uint64_t ticket, const Request& request,
                        TimePoint now) {
  by_key_.emplace(key, OwnOperation{ticket, request, now, now});
  ++size_;
}

const OwnOperation* OwnOperations::find(int slot) const noexcept {
  const auto index = static_cast<std::size_t>(slot);
  if (slot < 0 || index >= by_slot_.size() || !by_slot_[index]) return nullptr;
  return &*by_slot_[index];
}

const OwnOperation* OwnOperations::find(const OpKey& key) const {
  if (by_key_.empty()) return nullptr;
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &found->second;
}

bool OwnOperations::take(int slot, Agreed& into) {
  if (find(slot) == nullptr) return false;
  std::optional<OwnOperation>& operation = by_slot_[static_cast<std::size_t>(slot)];
  into.ticket = operation->ticket;
  into.request = std::move(operation->request);
  operation.reset();
  --size_;
  return true;
}

bool OwnOperations::take(const OpKey& key, Agreed& into) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return false;
  into.ticket = found->second.ticket;
  into.request = std::move(found->second.request);
  by_key_.erase(found);
  --size_;
  return true;
}

void OwnOperations::leave_slot(int slot) {
  if (find(slot) == nullptr) return;
  std::optional<OwnOperation>& operation = by_slot_[static_cast<std::size_t>(slot)];
  OpKey key{operation->request.name, 0};
  by_key_.emplace(std::move(key), std::move(*operation));
  operation.reset();
}

void OwnOperations::for_each(const std::function<void(const OpKey&, OwnOperation&)>& visit) {
  for (std::optional<OwnOperation>& operation : by_slot_) {
    if (operation) visit({operation->request.name, 0}, *operation);
  }
  for (auto& [key, operation] : by_key_) visit(key, operation);
}

void OwnOperations::for_each(
    const std::function<void(const OpKey&, const OwnOperation&)>& visit) const {
  for (const std::optional<OwnOperation>& operation : by_slot_) {
    if (operation) visit({operation->request.name, 0}, *operation);
  }
  for (const auto& [key, operation] : by_key_) visit(key, operation);
}

}  // namespace ronde
