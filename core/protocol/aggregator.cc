#include "core/protocol/aggregator.h"

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

std::uint64_t word_at(std::span<const std::uint64_t> words, std::size_t word) noexcept {
  return word < words.size() ? words[word] : 0;
}

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

Aggregator::Aggregator(std::vector<int> ranks, const ResponseCache& cache)
    : ranks_(std::move(ranks)),
      cache_(cache),
      ready_(ranks_.size()),
      weights_(ranks_.size()),
      joined_(ranks_.size(), false) {}

void Aggregator::grow(std::size_t words) {
  if (done_.size() >= words) return;
  done_.resize(words);
  mixed_.resize(words);
  for (auto& ready : ready_) ready.resize(words);
}

void Aggregator::add_words(int source, std::size_t first_word,
                           std::span<const std::uint64_t> words) {
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

void Aggregator::add_bit(int source, int slot) {
  const std::uint64_t word = mask_of(slot);
  add_words(source, word_of(slot), {&word, 1});
}

void Aggregator::complete_word(std::size_t word) {
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

Report Aggregator::report_of_bit(std::size_t source, int slot) const {
  Report report;
  report.slot = slot;
  report.rank = ranks_[source];
  report.request = cache_.at(slot);
  if (report.request->weight) report.weight = weights_[source][index(slot)];
  return report;
}

Report Aggregator::weighted_sum(int slot) const {
  Report sum;
  for (std::size_t source = 0; source < ranks_.size(); ++source) {
    if (!bit(ready_[source], slot)) continue;
    Report report = report_of_bit(source, slot);
    report.weight += sum.weight;
    sum = std::move(report);
  }
  return sum;
}

bool Aggregator::add_weight(int source, const Report& report) {
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

void Aggregator::add_report(int source, Report report) {
  if (add_weight(source, report)) return;
  Entry& entry = open(report.key());
  if (entry.seen[index(source)]) return;
  merge(entry, index(source), std::move(report));
  check(entry);
}

Aggregator::Entry& Aggregator::open(const OpKey& key) {
  const auto [found, is_new] = entries_.try_emplace(key);
  Entry& entry = found->second;
  if (!is_new) return entry;
  entry.seen.resize(ranks_.size());
  if (key.name.empty()) return entry;
  if (const int slot = cache_.find(key.name); slot >= 0) absorb(slot, entry);
  return entry;
}

void Aggregator::absorb(int slot, Entry& entry) {
  grow(word_of(slot) + 1);
  for (std::size_t source = 0; source < ranks_.size(); ++source) {
    if (bit(ready_[source], slot)) merge(entry, source, report_of_bit(source, slot));
  }
  entry.complete = bit(done_, slot);
  clear_bits(slot);
  mixed_[word_of(slot)] |= mask_of(slot);
}

void Aggregator::merge(Entry& entry, std::size_t source, Report report) {
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

void Aggregator::check(Entry& entry) {
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

NoticeResult Aggregator::add_notice(int source, const Notice& notice) {
  auto found = entries_.find(notice.key);
  if (found == entries_.end()) {
    const int slot = notice.key.name.empty() ? -1 : cache_.find(notice.key.name);
    if (slot < 0 || !bit(ready_[index(source)], slot)) return NoticeResult::kStale;
    open(notice.key);
    found = entries_.find(notice.key);
  }
  Entry& entry = found->second;
  if (!entry.seen[index(source)]) return NoticeResult::kStale;
  if (entry.complete) return amend_completed(notice);
  if (entry.merged.code == Code::kOk) {
    entry.merged.code = Code::kDuplicateName;
    entry.merged.message = notice.message;
  }
  return NoticeResult::kAttached;
}

NoticeResult Aggregator::amend_completed(const Notice& notice) {
  for (std::int32_t& entry : completed_.order) {
    if (entry >= 0 && cache_.at(entry)->name == notice.key.name) {
      completed_.reports.push_back(report_of_bit(0, entry));
      entry = -static_cast<std::int32_t>(completed_.reports.size());
    }
    if (entry >= 0) continue;
    Report& report = completed_.reports[static_cast<std::size_t>(-1 - entry)];
    if (!(report.key() == notice.key)) continue;
    if (report.code == Code::kOk) {
      report.code = Code::kDuplicateName;
      report.message = notice.message;
    }
    return NoticeResult::kAttached;
  }
  return NoticeResult::kForwarded;
}

void Aggregator::join(int source, int last_rank) {
  if (joined_[index(source)]) return;
  joined_[index(source)] = true;
  ++joined_count_;
  last_joined_ = last_rank;
  for (std::size_t word = 0; word < done_.size(); ++word) {
    expand_unless_allreduce(word);
    complete_word(word);
  }
  for (auto& [key, entry] : entries_) check(entry);
}

void Aggregator::expand_unless_allreduce(std::size_t word) {
  std::uint64_t any = 0;
  for (const auto& ready : ready_) any |= ready[word];
  for_each_slot(word, any & ~done_[word] & ~word_at(cache_.allreduces(), word), [&](int slot) {
    open({cache_.at(slot)->name, 0});
  });
}

void Aggregator::leave_join() {
  joined_.assign(joined_.size(), false);
  joined_count_ = 0;
  last_joined_ = -1;
}

void Aggregator::resolve_slot(int slot) {
  if (word_of(slot) >= done_.size()) return;
  if ((mixed_[word_of(slot)] & mask_of(slot)) != 0) {
    entries_.erase({cache_.at(slot)->name, 0});
    mixed_[word_of(slot)] &= ~mask_of(slot);
  }
  clear_bits(slot);
}

void Aggregator::resolve(const OpKey& key) {
  const int slot = key.name.empty() ? -1 : cache_.find(key.name);
  if (slot >= 0) resolve_slot(slot);
  entries_.erase(key);
}

void Aggregator::release_slot(int slot) {
  if (word_of(slot) >= done_.size()) return;
  if (has_bits(slot)) open({cache_.at(slot)->name, 0});
  mixed_[word_of(slot)] &= ~mask_of(slot);
}

bool Aggregator::is_pending(int slot) const {
  return word_of(slot) < done_.size() && (bit(mixed_, slot) || has_bits(slot));
}

bool Aggregator::is_complete(const OpKey& key) const {
  if (const auto found = entries_.find(key); found != entries_.end()) return found->second.complete;
  const int slot = key.name.empty() ? -1 : cache_.find(key.name);
  return slot >= 0 && bit(done_, slot);
}

std::uint64_t Aggregator::last_use(const OpKey& key) const {
  if (const auto found = entries_.find(key); found != entries_.end()) {
    return cache_.last_use(*found->second.merged.request);
  }
  const int slot = key.name.empty() ? -1 : cache_.find(key.name);
  return slot >= 0 ? cache_.last_use(*cache_.at(slot)) : 0;
}

bool Aggregator::has(int source, const OpKey& key) const {
  if (const auto found = entries_.find(key); found != entries_.end()) {
    return found->second.seen[index(source)];
  }
  const int slot = key.name.empty() ? -1 : cache_.find(key.name);
  return slot >= 0 && bit(ready_[index(source)], slot);
}

bool Aggregator::has_bits(int slot) const {
  return std::any_of(ready_.begin(), ready_.end(),
                     [&](const auto& words) { return bit(words, slot); });
}

void Aggregator::clear_bits(int slot) {
  for (auto& ready : ready_) ready[word_of(slot)] &= ~mask_of(slot);
  done_[word_of(slot)] &= ~mask_of(slot);
}

}  // namespace ronde
