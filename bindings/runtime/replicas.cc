#include "bindings/runtime/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/base/join_text.h"

namespace ronde {
namespace {

constexpr std::size_t kListedRanks = 4;

using Values = std::vector<std::optional<std::uint64_t>>;  // by rank; none: it has no such tensor

ReplicaDifference difference_of(std::uint64_t key, const Values& values,
                                std::span<const int> ranks) {
  const auto usual = std::ranges::max_element(
      values, {}, [&](const auto& value) { return std::ranges::count(values, value); });
  const auto rank_at = [&](auto place) {
    return ranks[static_cast<std::size_t>(place - values.begin())];
  };
  ReplicaDifference found;
  found.key = key;
  found.usual = rank_at(usual);
  for (auto value = values.begin(); value != values.end(); ++value) {
    if (*value != *usual) found.ranks.push_back(rank_at(value));
  }
  found.holder = rank_at(std::ranges::find_if(values, [](const auto& v) { return v.has_value(); }));
  found.missing = !std::ranges::all_of(values, [](const auto& v) { return v.has_value(); });
  return found;
}

}  // namespace

std::vector<ReplicaDifference> find_differences(std::span<const int> ranks,
                                                std::span<const std::vector<HashedTensor>> tables) {
  std::vector<std::uint64_t> keys;  // in order
  std::unordered_map<std::uint64_t, Values> values;
  for (std::size_t rank = 0; rank < tables.size(); ++rank) {
    for (const auto& [key, hash] : tables[rank]) {
      const auto [known, is_new] = values.try_emplace(key, tables.size());
      if (is_new) keys.push_back(key);
      known->second[rank] = hash;
    }
  }
  std::vector<ReplicaDifference> found;
  for (const std::uint64_t key : keys) {
    const Values& of_key = values[key];
    const auto differs = [&](const auto& value) { return value != of_key.front(); };
    if (std::ranges::any_of(of_key, differs)) found.push_back(difference_of(key, of_key, ranks));
  }
  return found;
}

std::string list_ranks(std::span<const int> ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  const std::string some = join_text(ranks.first(std::min(ranks.size(), kListedRanks)), ", ");
  const std::size_t more = ranks.size() - std::min(ranks.size(), kListedRanks);
  return more == 0 ? fmt::format("ranks {}", some)
                   : fmt::format("ranks {} and {} more", some, more);
}

std::string describe(const ReplicaDifference& difference, std::string_view label) {
  return fmt::format("{} has another {} on {} than on rank {}", label,
                     difference.missing ? "tensor" : "value", list_ranks(difference.ranks),
                     difference.usual);
}

}  // namespace ronde
