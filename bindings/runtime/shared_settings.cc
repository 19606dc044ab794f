#include "bindings/runtime/shared_settings.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "bindings/runtime/tuning.h"

namespace ronde {
namespace {

constexpr std::array<std::string_view, 5> kShared = {
    "RONDE_ALGORITHM", "RONDE_DETERMINISTIC", "RONDE_FUSION_THRESHOLD", "RONDE_PARTITION_BYTES",
    "RONDE_CACHE_CAPACITY"};
constexpr char kGood = '+';
constexpr char kBad = '-';
constexpr char kEnd = '\0';  // of a value: environment variables contain none

/// Rank 0's tuning, or why there is none.
std::string tuning_of(const Config& config) {
  if (config.tuning_file.empty()) return {kGood};
  auto text = read_tuning(config.tuning_file);
  if (!text.ok()) return kBad + text.status().message();
  const auto rows = parse_tuning(*text, config.tuning_file);
  return rows.ok() ? kGood + *text : kBad + rows.status().message();
}

std::string pack(const Config& config, int rank) {
  std::string packed;
  for (const std::string_view name : kShared) packed += setting_value(config, name) + kEnd;
  return packed + (rank == 0 ? tuning_of(config) : std::string{kGood});
}

/// Takes a value off the front.
std::string_view next_value(std::string_view& packed) {
  const std::size_t end = std::min(packed.find(kEnd), packed.size());
  const std::string_view value = packed.substr(0, end);
  packed.remove_prefix(std::min(end + 1, packed.size()));
  return value;
}

Status compare(const std::vector<std::string>& all) {
  std::vector<std::string_view> rest(all.begin(), all.end());
  for (const std::string_view name : kShared) {
    const std::string_view first = next_value(rest[0]);
    for (std::size_t rank = 1; rank < rest.size(); ++rank) {
      const std::string_view value = next_value(rest[rank]);
      if (value == first) continue;
      return {Code::kMismatch, fmt::format("{}: rank 0 has \"{}\", rank {} has \"{}\"; it must be "
                                           "the same on all ranks",
                                           name, first, rank, value)};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<SelectionRow>> agree_on_settings(const Config& config, int rank,
                                                    Exchange& exchange) {
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange.allgather(pack(config, rank)));
  RONDE_RETURN_IF_ERROR(compare(all));
  std::string_view tuning = all[0];
  for (std::size_t i = 0; i < kShared.size(); ++i) next_value(tuning);
  if (tuning.empty() || tuning.front() != kGood) {
    return Status(Code::kInvalidArgument, std::string(tuning.substr(tuning.empty() ? 0 : 1)));
  }
  if (tuning.size() == 1) return std::vector<SelectionRow>();
  return parse_tuning(tuning.substr(1), "of rank 0");
}

}  // namespace ronde
