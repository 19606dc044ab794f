#include "bindings/runtime/shared_settings.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/runtime/tuning.h"
#include "core/base/wire_codec.h"

namespace ronde {
namespace {

constexpr std::array<std::string_view, 5> kShared = {
    "RONDE_ALGORITHM", "RONDE_DETERMINISTIC", "RONDE_FUSION_THRESHOLD", "RONDE_PARTITION_BYTES",
    "RONDE_CACHE_CAPACITY"};

/// What a rank brings.
struct SharedSettings {
  std::vector<std::string> values;  ///< By kShared.
  std::string tuning;               ///< Rank 0's file; empty: none.
  Status tuning_error;              ///< Why rank 0 has none.

  static void fields(auto& wire, auto& self) { wire(self.values, self.tuning, self.tuning_error); }
};

void read_tuning_into(SharedSettings& settings, const Config& config) {
  if (config.tuning_file.empty()) return;
  auto text = read_tuning(config.tuning_file);
  settings.tuning_error = text.status();
  if (!text.ok()) return;
  settings.tuning_error = parse_tuning(*text, config.tuning_file).status();
  if (settings.tuning_error.ok()) settings.tuning = std::move(*text);
}

SharedSettings settings_of(const Config& config, int rank) {
  SharedSettings settings;
  for (const std::string_view name : kShared) {
    settings.values.emplace_back(setting_value(config, name));
  }
  if (rank == 0) read_tuning_into(settings, config);
  return settings;
}

Status compare(const std::vector<SharedSettings>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].values.size() == kShared.size()) continue;
    return {Code::kMismatch, fmt::format("rank {} has other settings", rank)};
  }
  for (std::size_t i = 0; i < kShared.size(); ++i) {
    const std::string& first = all[0].values[i];
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      const std::string& value = all[rank].values[i];
      if (value == first) continue;
      return {Code::kMismatch, fmt::format("{}: rank 0 has \"{}\", rank {} has \"{}\"; it must be "
                                           "the same on all ranks",
                                           kShared[i], first, rank, value)};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<SelectionRow>> agree_on_settings(const Config& config, int rank,
                                                    Exchange& exchange) {
  RONDE_ASSIGN_OR_RETURN(const auto answers,
                         exchange.allgather(encode_wire<std::string>(settings_of(config, rank))));
  std::vector<SharedSettings> all;
  for (const std::string& answer : answers) {
    RONDE_ASSIGN_OR_RETURN(all.emplace_back(),
                           decode_wire<SharedSettings>(as_bytes(answer), "list of settings"));
  }
  RONDE_RETURN_IF_ERROR(compare(all));
  RONDE_RETURN_IF_ERROR(all[0].tuning_error);
  if (all[0].tuning.empty()) return std::vector<SelectionRow>();
  return parse_tuning(all[0].tuning, "of rank 0");
}

}  // namespace ronde
