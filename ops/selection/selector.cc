#include "ops/selection/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/join_text.h"
#include "ops/algorithms.h"

namespace ronde {

namespace {

constexpr std::array kAlgorithms{
    Algorithm{Collective::kAllreduce, "tree", &tree_allreduce},
    Algorithm{Collective::kAllreduce, "halving_doubling", &halving_doubling_allreduce},
    Algorithm{Collective::kAllreduce, "ring", &ring_allreduce},
    Algorithm{Collective::kAllreduce, "double_tree", &double_tree_allreduce},
    Algorithm{Collective::kAllreduce, "direct", &direct_allreduce},
    Algorithm{Collective::kAllgather, "bruck", &bruck_allgather},
    Algorithm{Collective::kAllgather, "ring", &ring_allgather},
    Algorithm{Collective::kBroadcast, "binomial", &binomial_broadcast},
    Algorithm{Collective::kBroadcast, "chain", &chain_broadcast},
    Algorithm{Collective::kReduceScatter, "ring", &ring_reduce_scatter},
    Algorithm{Collective::kReduceScatter, "direct", &direct_reduce_scatter},
    Algorithm{Collective::kAlltoall, "pairwise", &pairwise_alltoall},
    Algorithm{Collective::kAlltoall, "bruck", &bruck_alltoall},
    Algorithm{Collective::kReduce, "binomial", &binomial_reduce},
    Algorithm{Collective::kReduce, "direct", &direct_reduce},
    Algorithm{Collective::kGather, "linear", &linear_gather},
    Algorithm{Collective::kScatter, "linear", &linear_scatter},
    Algorithm{Collective::kBarrier, "dissemination", &dissemination_barrier},
};

constexpr std::size_t kKiB = 1024;

constexpr std::array kTable{
    SelectionRow{Collective::kAllreduce, "tree", 4 * kKiB},
    SelectionRow{Collective::kAllreduce, "halving_doubling", 256 * kKiB},
    SelectionRow{Collective::kAllreduce, "ring"},
    SelectionRow{Collective::kAllgather, "bruck", 32 * kKiB},
    SelectionRow{Collective::kAllgather, "ring"},
    SelectionRow{Collective::kBroadcast, "binomial", 512 * kKiB},
    SelectionRow{.kind = Collective::kBroadcast, .algorithm = "binomial", .max_ranks = 2},
    SelectionRow{Collective::kBroadcast, "chain"},
    SelectionRow{Collective::kReduceScatter, "ring"},
    SelectionRow{.kind = Collective::kAlltoall, .algorithm = "pairwise", .max_ranks = 10},
    SelectionRow{Collective::kAlltoall, "bruck", 256 * kKiB},
    SelectionRow{Collective::kAlltoall, "pairwise"},
    SelectionRow{Collective::kReduce, "binomial", 256 * kKiB},
    SelectionRow{Collective::kReduce, "direct"},
    SelectionRow{Collective::kGather, "linear"},
    SelectionRow{Collective::kScatter, "linear"},
    SelectionRow{Collective::kBarrier, "dissemination"},
};

constexpr bool is_known(const SelectionRow& row) {
  return std::any_of(kAlgorithms.begin(), kAlgorithms.end(), [&](const Algorithm& known) {
    return known.kind == row.kind && known.name == row.algorithm;
  });
}

/// True if any size and any number of ranks has a row. A join moves nothing, and sparse work is
/// composed of other collectives.
constexpr bool is_served(const CollectiveTraits& traits) {
  constexpr auto kAnyBytes = SelectionRow{}.max_bytes;
  constexpr auto kAnyRanks = SelectionRow{}.max_ranks;
  return traits.value == Collective::kJoin || traits.has_indices() ||
         std::any_of(kTable.begin(), kTable.end(), [&](const SelectionRow& row) {
           return row.kind == traits.value && row.max_bytes == kAnyBytes &&
                  row.max_ranks == kAnyRanks;
         });
}

static_assert(std::all_of(kTable.begin(), kTable.end(), is_known),
              "a row of kTable names an algorithm that kAlgorithms does not have");
static_assert(std::all_of(kCollectives.begin(), kCollectives.end(), is_served),
              "a collective has no row in kTable for all sizes and numbers of ranks");

const Algorithm* look_up(std::span<const SelectionRow> table, Collective kind, std::size_t bytes,
                         int ranks) {
  for (const SelectionRow& row : table) {
    if (row.kind == kind && bytes <= row.max_bytes && ranks <= row.max_ranks) {
      return find_algorithm(kind, row.algorithm);
    }
  }
  return nullptr;
}

std::string describe(const SelectionRow& row) {
  std::string line(to_string(row.kind));
  if (row.max_bytes != SelectionRow{}.max_bytes) {
    line += row.max_bytes % kKiB == 0 ? fmt::format(" up to {} KiB", row.max_bytes / kKiB)
                                      : fmt::format(" up to {} B", row.max_bytes);
  }
  if (row.max_ranks != SelectionRow{}.max_ranks) {
    line += fmt::format(" up to {} ranks", row.max_ranks);
  }
  return fmt::format("{}: {}", line, row.algorithm);
}

std::vector<std::string_view> allowed_names() {
  std::vector<std::string_view> names{kNativeAlgorithm, kHierarchicalAlgorithm};
  for (const Algorithm& known : kAlgorithms) {
    if (std::find(names.begin(), names.end(), known.name) == names.end()) {
      names.push_back(known.name);
    }
  }
  return names;
}

}  // namespace

std::span<const Algorithm> algorithms() noexcept { return kAlgorithms; }

std::span<const SelectionRow> selection_table() noexcept { return kTable; }

const Algorithm* find_algorithm(Collective kind, std::string_view name) noexcept {
  const auto* found = std::find_if(
      kAlgorithms.begin(), kAlgorithms.end(),
      [&](const Algorithm& known) { return known.kind == kind && known.name == name; });
  return found == kAlgorithms.end() ? nullptr : &*found;
}

std::vector<std::string> describe_selection(std::span<const SelectionRow> tuned) {
  std::vector<std::string> lines;
  for (const SelectionRow& row : tuned) lines.push_back(describe(row) + " (tuned)");
  lines.push_back(fmt::format("averages of float32 and float64 up to {} ranks: {}",
                              kMostRanksOfExactMean, kDeterministicAlgorithm));
  for (const SelectionRow& row : kTable) lines.push_back(describe(row));
  lines.push_back(
      fmt::format("allreduce, broadcast, allgather, reduce_scatter over hosts of several ranks: {}",
                  kHierarchicalAlgorithm));
  return lines;
}

std::string_view exact_algorithm(const Reduction& what, int ranks) noexcept {
  const bool exact = is_rounded_once(what) && ranks <= kMostRanksOfExactMean;
  return exact ? kDeterministicAlgorithm : std::string_view{};
}

Status check_algorithm(std::string_view algorithm) {
  if (algorithm.empty()) return {};
  const std::vector<std::string_view> allowed = allowed_names();
  if (std::find(allowed.begin(), allowed.end(), algorithm) != allowed.end()) return {};
  return {Code::kInvalidArgument, fmt::format("algorithm '{}' is not known; allowed: {}", algorithm,
                                              join_text(allowed, ", "))};
}

Result<const Algorithm*> select_algorithm(Collective kind, std::size_t bytes, int ranks,
                                          std::string_view algorithm,
                                          std::span<const SelectionRow> tuned) {
  const Algorithm* chosen = algorithm.empty() ? nullptr : find_algorithm(kind, algorithm);
  if (chosen != nullptr) return chosen;
  RONDE_RETURN_IF_ERROR(check_algorithm(algorithm));
  chosen = look_up(tuned, kind, bytes, ranks);
  if (chosen == nullptr) chosen = look_up(kTable, kind, bytes, ranks);
  if (chosen != nullptr) return chosen;
  return Status(Code::kUnsupported, fmt::format("no algorithm for {}", to_string(kind)));
}

}  // namespace ronde
