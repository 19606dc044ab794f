#include "core/protocol/subtree.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "core/protocol/request.h"
#include "core/protocol/stall_facts.h"

namespace ronde {
namespace {

/// Calls `visit` with the slot of each bit of one word.
template <typename Visit>
void for_each_slot(std::size_t word, std::uint64_t bits, const Visit& visit) {
  for (; bits != 0; bits &= bits - 1) {
    visit(static_cast<int>(word * 64) + std::countr_zero(bits));
  }
}

/// As above, of all words of a tick.
template <typename Visit>
void for_each_slot(const TickFrame& tick, const Visit& visit) {
  for (std::size_t i = 0; i < tick.words.size(); ++i) {
    for_each_slot(tick.first_word + i, tick.words[i], visit);
  }
}

std::vector<int> source_ranks(const TreeNode& node) {
  std::vector<int> ranks = {node.rank};
  ranks.insert(ranks.end(), node.children.begin(), node.children.end());
  return ranks;
}

std::uint64_t word_at(std::span<const std::uint64_t> words, std::size_t word) noexcept {
  return word < words.size() ? words[word] : 0;
}

constexpr int kSelf = 0;  // the source number of this rank

std::size_t index(int number) noexcept { return static_cast<std::size_t>(number); }

bool bit(std::span<const std::uint64_t> words, int slot) noexcept {
  return (word_at(words, word_of(slot)) & mask_of(slot)) != 0;
}

/// The likely cause where ranks are at different lines of code: an operation without a name met the
/// one that follows the loop of a rank with fewer batches. Empty if that is not likely.
std::string cause_of(const Report& a, const Report& b, const ResponseCache& cache) {
  if (a.ordinal == 0 || a.request->call_site == b.request->call_site) return {};
  for (const auto& [known, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!cache.used_after(*known->request, *other->request)) continue;
    return fmt::format(". All ranks have submitted this {} before; now {}",
                       to_string(known->request->kind), fewer_batches_text({&other->rank, 1}));
  }
  return {};
}

Report mismatch_of(const Report& a, const Report& b, const ResponseCache& cache) {
  Report merged = a;
  merged.payload = {};
  const OpKey key = a.key();
  const std::string what =
      a.request->kind == b.request->kind
          ? label(a.request->kind, key)
          : (key.name.empty() ? fmt::format("unnamed operation number {}", key.ordinal)
                              : fmt::format("operation \"{}\"", key.name));
  merged.code = Code::kMismatch;
  merged.message =
      fmt::format("{}: {}{}", what, explain_difference({a.rank, *a.request}, {b.rank, *b.request}),
                  cause_of(a, b, cache));
  return merged;
}

}  // namespace

void Completed::add(Report report) {
  reports.push_back(std::move(report));
  order.push_back(-static_cast<std::int32_t>(reports.size()));
}

void Completed::clear() {
  order.clear();
  reports.clear();
}

Subtree::Subtree(const TreeNode& node, const ResponseCache& cache, TreeSender& sender)
    : node_(node),
      cache_(cache),
      sender_(sender),
      ranks_(source_ranks(node)),
      ready_(ranks_.size()),
      weights_(ranks_.size()),
      joined_(ranks_.size(), false),
      acked_(ranks_.size(), 0) {}

// This rank.

void Subtree::add(Announcement&& told) {
  if (told.duplicate) return add_notice(kSelf, *told.duplicate);
  if (told.report) {
    add_report(kSelf, std::move(*told.report));
  } else {
    add_bit(kSelf, told.slot);
  }
  report_completed();
}

void Subtree::join() {
  add_join(kSelf, node_.rank);
  report_completed();
}

// Ticks of children.

Status Subtree::check(const TickFrame& tick, int source, std::uint64_t applied) const {
  if (tick.acked > applied || tick.acked < acked_[index(source)]) {
    return out_of_protocol(fmt::format("acknowledges batch {} of {}", tick.acked, applied));
  }
  RONDE_RETURN_IF_ERROR(check_bits(tick));
  for (const Report& report : tick.reports) {
    RONDE_RETURN_IF_ERROR(check_report(report, tick.acked));
  }
  if (tick.last_joined >= 0 && (!node_.is_member(tick.last_joined) || joined_[index(source)])) {
    return out_of_protocol("a join of a rank outside the set, or a second one");
  }
  if (tick.leaver >= 0 && !node_.is_member(tick.leaver)) {
    return out_of_protocol("a rank outside the set leaves");
  }
  return {};
}

Status Subtree::check_bits(const TickFrame& tick) const {
  const auto named = cache_.named();
  if (tick.first_word > named.size() || tick.words.size() > named.size() - tick.first_word) {
    return tick.words.empty() ? Status() : out_of_protocol("bits beyond the cache");
  }
  bool known = true;
  if (cache_.last_change() <= tick.acked) {
    for (std::size_t i = 0; i < tick.words.size(); ++i) {
      known = known && (tick.words[i] & ~named[tick.first_word + i]) == 0;
    }
  } else {
    for_each_slot(tick, [&](int slot) {
      const RequestPtr cached = cache_.at(slot, tick.acked);
      known = known && cached != nullptr && !cached->name.empty() && !cached->weight;
    });
  }
  return known ? Status() : out_of_protocol("a bit for a slot that holds no named request");
}

Status Subtree::check_report(const Report& report, std::uint64_t acked) const {
  if (!node_.is_member(report.rank)) return out_of_protocol("a report of a rank outside the set");
  if (report.slot < 0) return check_payload(report.payload, *report.request, node_.members);
  const RequestPtr cached = cache_.at(report.slot, acked);
  if (!may_name_slot(cached, report.ordinal)) {
    return out_of_protocol(fmt::format("slot {} holds no such request", report.slot));
  }
  return check_payload(report.payload, *cached, node_.members);
}

void Subtree::take(TickFrame& tick, int source) {
  acked_[index(source)] = tick.acked;
  if (cache_.last_change() <= tick.acked && failed_.empty()) {
    add_words(source, tick.first_word, tick.words);
  } else {
    take_bits_one_by_one(tick, source);
  }
  for (Report& report : tick.reports) {
    if (report.slot >= 0) report.request = cache_.at(report.slot, tick.acked);
    if (!has_failed_since(report.key(), tick.acked)) add_report(source, std::move(report));
  }
  for (const Notice& notice : tick.notices) add_notice(source, notice);
  if (tick.last_joined >= 0) add_join(source, tick.last_joined);
  report_completed();
}

void Subtree::take_bits_one_by_one(const TickFrame& tick, int source) {
  for_each_slot(tick, [&](int slot) {
    RequestPtr meant = cache_.at(slot, tick.acked);
    if (has_failed_since({meant->name, 0}, tick.acked)) return;
    if (meant == cache_.at(slot)) return add_bit(source, slot);
    Report report;
    report.rank = ranks_[index(source)];
    report.request = std::move(meant);
    add_report(source, std::move(report));
  });
}

bool Subtree::has_failed_since(const OpKey& key, std::uint64_t acked) const {
  if (failed_.empty()) return false;
  const auto found = failed_.find(key);
  return found != failed_.end() && found->second > acked;
}

std::uint64_t Subtree::forget_acked(std::uint64_t applied) {
  std::uint64_t slowest = applied;
  for (std::size_t source = 1; source < acked_.size(); ++source) {
    if (!joined_[source]) slowest = std::min(slowest, acked_[source]);
  }
  std::erase_if(failed_, [&](const auto& entry) { return entry.second <= slowest; });
  return slowest;
}

void Subtree::report_completed() {
  if (node_.is_root()) return;
  for (const std::int32_t entry : completed_.order) {
    TickFrame& tick = sender_.tick();
    if (entry < 0) {
      Report& report = completed_.reports[index(-1 - entry)];
      if (report.slot >= 0 && cache_.at(report.slot) != report.request) report.slot = -1;
      tick.reports.push_back(std::move(report));
      continue;
    }
    if (tick.words.size() <= word_of(entry)) tick.words.resize(word_of(entry) + 1);
    tick.words[word_of(entry)] |= mask_of(entry);
  }
  completed_.clear();
  if (all_joined() && !std::exchange(reported_join_, true)) {
    sender_.tick().last_joined = last_joined_;
  }
}

// Bits.

void Subtree::grow(std::size_t words) {
  if (done_.size() >= words) return;
  done_.resize(words);
  mixed_.resize(words);
  for (auto& ready : ready_) ready.resize(words);
}

void Subtree::add_words(int source, std::size_t first_word, std::span<const std::uint64_t> words) {
  if (words.empty()) return;  // then first_word may be anything
  grow(first_word + words.size());
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t word = first_word + i;
    std::uint64_t slow = words[i] & mixed_[word];
    if (joined_count_ > 0) slow |= words[i] & ~word_at(cache_.allreduces(), word);
    ready_[index(source)][word] |= words[i] & ~slow;
    complete_word(word);
    for_each_slot(word, slow,
                  [&](int slot) { add_report(source, report_of_bit(index(source), slot)); });
  }
}

void Subtree::add_bit(int source, int slot) {
  const std::uint64_t word = mask_of(slot);
  add_words(source, word_of(slot), {&word, 1});
}

void Subtree::complete_word(std::size_t word) {
  std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t any = 0;
  for (std::size_t source = 0; source < ready_.size(); ++source) {
    const std::uint64_t ready = ready_[source][word];
    any |= ready;
    if (!joined_[source]) all &= ready;
  }
  const std::uint64_t fresh = all & any & ~done_[word];
  done_[word] |= fresh;
  for_each_slot(word, fresh, [&](int slot) {
    if (cache_.at(slot)->weight) return completed_.add(weighted_sum(slot));
    completed_.order.push_back(slot);
  });
}

Report Subtree::report_of_bit(std::size_t source, int slot) const {
  Report report;
  report.slot = slot;
  report.rank = ranks_[source];
  report.request = cache_.at(slot);
  if (report.request->weight) report.weight = weights_[source][index(slot)];
  return report;
}

Report Subtree::weighted_sum(int slot) const {
  Report sum;
  for (std::size_t source = 0; source < ranks_.size(); ++source) {
    if (!bit(ready_[source], slot)) continue;
    Report report = report_of_bit(source, slot);
    report.weight += sum.weight;
    sum = std::move(report);
  }
  return sum;
}

bool Subtree::add_weight(int source, const Report& report) {
  const int slot = report.slot;
  if (slot < 0 || report.ordinal != 0 || report.code != Code::kOk || !report.request->weight ||
      report.request != cache_.at(slot) || bit(mixed_, slot)) {
    return false;
  }
  if (bit(ready_[index(source)], slot)) return true;
  std::vector<double>& weights = weights_[index(source)];
  if (weights.size() <= index(slot)) weights.resize(index(slot) + 1);
  weights[index(slot)] = report.weight;
  add_bit(source, slot);
  return true;
}

// Entries.

void Subtree::add_report(int source, Report report) {
  if (add_weight(source, report)) return;
  Entry& entry = open(report.key());
  if (entry.seen[index(source)]) return;
  merge(entry, index(source), std::move(report));
  complete(entry);
}

Subtree::Entry& Subtree::open(const OpKey& key) {
  const auto [found, is_new] = entries_.try_emplace(key);
  Entry& entry = found->second;
  if (!is_new) return entry;
  entry.seen.resize(ranks_.size());
  if (const int slot = cache_.find(key.name); slot >= 0) absorb(slot, entry);
  return entry;
}

void Subtree::absorb(int slot, Entry& entry) {
  grow(word_of(slot) + 1);
  for (std::size_t source = 0; source < ranks_.size(); ++source) {
    if (bit(ready_[source], slot)) merge(entry, source, report_of_bit(source, slot));
  }
  entry.complete = bit(done_, slot);
  clear_bits(slot);
  mixed_[word_of(slot)] |= mask_of(slot);
}

void Subtree::merge(Entry& entry, std::size_t source, Report report) {
  entry.seen[source] = true;
  if (entry.count++ == 0) {
    entry.merged = std::move(report);
    return;
  }
  if (entry.merged.code != Code::kOk) return;
  entry.merged.weight += report.weight;
  entry.merged.payload.merge(report.payload);
  if (report.code != Code::kOk) {
    entry.merged = std::move(report);
  } else if (entry.merged.request != report.request &&
             !same_signature(*entry.merged.request, *report.request)) {
    entry.merged = mismatch_of(entry.merged, report, cache_);
  }
}

void Subtree::complete(Entry& entry) {
  if (entry.complete || entry.count + joined_count_ < ranks_.size()) return;
  for (std::size_t source = 0; source < ranks_.size(); ++source) {
    if (entry.seen[source]) continue;
    if (!joined_[source]) return;
    Report& merged = entry.merged;
    if (traits_of(merged.request->kind).outlives_join || merged.code != Code::kOk) continue;
    merged.code = Code::kMismatch;
    merged.message = fmt::format("{}: rank {} has joined, and only allreduce can go on without it",
                                 label(merged.request->kind, merged.key()), ranks_[source]);
  }
  entry.complete = true;
  completed_.add(entry.merged);
}

void Subtree::add_notice(int source, const Notice& notice) {
  auto found = entries_.find(notice.key);
  if (found == entries_.end()) {
    const int slot = cache_.find(notice.key.name);
    if (slot < 0 || !bit(ready_[index(source)], slot)) return;
    open(notice.key);
    found = entries_.find(notice.key);
  }
  Entry& entry = found->second;
  if (!entry.seen[index(source)]) return;
  if (entry.complete) {
    if (!amend_completed(notice) && !node_.is_root()) sender_.tick().notices.push_back(notice);
  } else if (entry.merged.code == Code::kOk) {
    entry.merged.code = Code::kDuplicateName;
    entry.merged.message = notice.message;
  }
}

bool Subtree::amend_completed(const Notice& notice) {
  for (std::int32_t& entry : completed_.order) {
    if (entry >= 0 && cache_.at(entry)->name == notice.key.name) {
      completed_.reports.push_back(report_of_bit(0, entry));
      entry = -static_cast<std::int32_t>(completed_.reports.size());
    }
    if (entry >= 0) continue;
    Report& report = completed_.reports[index(-1 - entry)];
    if (!(report.key() == notice.key)) continue;
    if (report.code == Code::kOk) {
      report.code = Code::kDuplicateName;
      report.message = notice.message;
    }
    return true;
  }
  return false;
}

// Joins.

void Subtree::add_join(int source, int last_rank) {
  if (joined_[index(source)]) return;
  joined_[index(source)] = true;
  ++joined_count_;
  last_joined_ = last_rank;
  for (std::size_t word = 0; word < done_.size(); ++word) {
    expand_unless_allreduce(word);
    complete_word(word);
  }
  for (auto& [key, entry] : entries_) complete(entry);
}

void Subtree::expand_unless_allreduce(std::size_t word) {
  std::uint64_t any = 0;
  for (const auto& ready : ready_) any |= ready[word];
  for_each_slot(word, any & ~done_[word] & ~word_at(cache_.allreduces(), word), [&](int slot) {
    open({cache_.at(slot)->name, 0});
  });
}

void Subtree::end_join() {
  joined_.assign(joined_.size(), false);
  joined_count_ = 0;
  last_joined_ = -1;
  reported_join_ = false;
  failed_.clear();
}

// Agreements.

void Subtree::resolve(int slot) {
  if (word_of(slot) >= done_.size()) return;
  if ((mixed_[word_of(slot)] & mask_of(slot)) != 0) {
    entries_.erase({cache_.at(slot)->name, 0});
    mixed_[word_of(slot)] &= ~mask_of(slot);
  }
  clear_bits(slot);
}

void Subtree::resolve(const OpKey& key) {
  const int slot = cache_.find(key.name);
  if (slot >= 0) resolve(slot);
  entries_.erase(key);
}

void Subtree::release_slot(int slot) {
  if (word_of(slot) >= done_.size()) return;
  if (has_bits(slot)) open({cache_.at(slot)->name, 0});
  mixed_[word_of(slot)] &= ~mask_of(slot);
}

bool Subtree::is_pending(int slot) const {
  return word_of(slot) < done_.size() && (bit(mixed_, slot) || has_bits(slot));
}

bool Subtree::is_complete(const OpKey& key) const {
  if (const auto found = entries_.find(key); found != entries_.end()) return found->second.complete;
  const int slot = cache_.find(key.name);
  return slot >= 0 && bit(done_, slot);
}

std::uint64_t Subtree::last_use(const OpKey& key) const {
  if (const auto found = entries_.find(key); found != entries_.end()) {
    return cache_.last_use(*found->second.merged.request);
  }
  const int slot = cache_.find(key.name);
  return slot >= 0 ? cache_.last_use(*cache_.at(slot)) : 0;
}

std::vector<int> Subtree::lacking(const OpKey& key) const {
  const auto found = entries_.find(key);
  const int slot = cache_.find(key.name);
  std::vector<int> children;
  for (std::size_t source = 1; source < ranks_.size(); ++source) {
    const bool has_reported = found != entries_.end() ? found->second.seen[source]
                                                      : slot >= 0 && bit(ready_[source], slot);
    if (!has_reported) children.push_back(ranks_[source]);
  }
  return children;
}

bool Subtree::has_bits(int slot) const {
  return std::any_of(ready_.begin(), ready_.end(),
                     [&](const auto& words) { return bit(words, slot); });
}

void Subtree::clear_bits(int slot) {
  for (auto& ready : ready_) ready[word_of(slot)] &= ~mask_of(slot);
  done_[word_of(slot)] &= ~mask_of(slot);
}

}  // namespace ronde
