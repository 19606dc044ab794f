#include "core/protocol/response_cache.h"

#include <algorithm>
#include <utility>

#include "core/protocol/request.h"

namespace ronde {
namespace {

constexpr std::size_t kMaxCapacity = std::size_t{1} << 20;  // 128 KiB of bits in one frame

void set_bit(std::vector<std::uint64_t>& words, int slot, bool value) {
  if (words.size() <= word_of(slot)) words.resize(word_of(slot) + 1);
  if (value) {
    words[word_of(slot)] |= mask_of(slot);
  } else {
    words[word_of(slot)] &= ~mask_of(slot);
  }
}

}  // namespace

ResponseCache::ResponseCache(std::size_t capacity) : capacity_(std::min(capacity, kMaxCapacity)) {}

int ResponseCache::find(const std::string& name) const {
  if (name.empty()) return -1;
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

int ResponseCache::find(const Request& request) const {
  if (!request.name.empty()) return find(request.name);
  const auto [begin, end] = by_signature_.equal_range(signature_hash(request));
  for (auto it = begin; it != end; ++it) {
    const Request& cached = *at(it->second);
    if (cached.call_site == request.call_site && stands_for(cached, request)) return it->second;
  }
  return -1;
}

const RequestPtr& ResponseCache::at(int slot) const noexcept {
  static const RequestPtr kNothing;
  const auto index = static_cast<std::size_t>(slot);
  return slot >= 0 && index < slots_.size() ? slots_[index].request : kNothing;
}

RequestPtr ResponseCache::at(int slot, std::uint64_t acked) const {
  if (slot < 0 || static_cast<std::size_t>(slot) >= slots_.size()) return nullptr;
  const Slot& now = slots_[static_cast<std::size_t>(slot)];
  if (now.since <= acked) return now.request;
  for (const Former& former : former_) {
    if (former.slot == slot && former.since <= acked && acked < former.until) return former.request;
  }
  return nullptr;
}

void ResponseCache::forget_before(std::uint64_t acked) {
  const auto keep = std::find_if(former_.begin(), former_.end(),
                                 [&](const Former& former) { return former.until > acked; });
  former_.erase(former_.begin(), keep);
}

int ResponseCache::choose(const Request& request,
                          const std::function<bool(int slot)>& evictable) const {
  if (capacity_ == 0) return -1;
  if (const int own = find(request.name); own >= 0) return own;
  if (slots_.size() < capacity_) return static_cast<int>(slots_.size());
  const auto slot = std::ranges::find_if(by_use_, evictable);
  return slot == by_use_.end() ? -1 : *slot;
}

bool ResponseCache::assign(int slot, RequestPtr request, std::uint64_t sequence) {
  const auto position = static_cast<std::size_t>(slot);
  bool evicts = false;
  if (position == slots_.size()) {
    slots_.emplace_back().place = by_use_.insert(by_use_.end(), slot);
  } else {
    evicts =
        slots_[position].request->name.empty() || slots_[position].request->name != request->name;
    retire(slot, sequence);
  }
  slots_[position].request = std::move(request);
  slots_[position].since = sequence;
  last_change_ = sequence;
  index(slot);
  use(slot);
  return evicts;
}

std::uint64_t ResponseCache::last_use(const Request& request) const {
  const int slot = find(request);
  return slot < 0 ? 0 : slots_[static_cast<std::size_t>(slot)].used;
}

bool ResponseCache::used_after(const Request& a, const Request& b) const {
  const std::uint64_t before = last_use(b);
  const std::uint64_t used = last_use(a);
  return used > 0 && (before == 0 || (knows_order_ && used > before));
}

void ResponseCache::touch(int slot) {
  knows_order_ = true;
  use(slot);
}

void ResponseCache::use(int slot) {
  Slot& used = slots_[static_cast<std::size_t>(slot)];
  used.used = ++uses_;
  by_use_.splice(by_use_.end(), by_use_, used.place);
}

void ResponseCache::retire(int slot, std::uint64_t sequence) {
  const Slot& old = slots_[static_cast<std::size_t>(slot)];
  if (!old.request->name.empty()) {
    by_name_.erase(old.request->name);
  } else {
    const auto [begin, end] = by_signature_.equal_range(signature_hash(*old.request));
    by_signature_.erase(
        std::find_if(begin, end, [&](const auto& entry) { return entry.second == slot; }));
  }
  former_.push_back({slot, old.request, old.since, sequence});
}

void ResponseCache::index(int slot) {
  const Request& request = *slots_[static_cast<std::size_t>(slot)].request;
  const bool named = !request.name.empty();
  if (named) {
    by_name_[request.name] = slot;
  } else {
    by_signature_.emplace(signature_hash(request), slot);
  }
  set_bit(named_, slot, named && !request.weight);
  set_bit(allreduces_, slot, named && traits_of(request.kind).outlives_join);
}

}  // namespace ronde
