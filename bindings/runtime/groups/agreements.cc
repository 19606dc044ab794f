#include "bindings/runtime/groups/agreements.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/runtime/groups/tuning.h"
#include "core/base/join_text.h"
#include "core/base/wire_codec.h"

namespace ronde {

std::uint64_t GroupKeys::next(const std::vector<int>& ranks) {
  const MutexLock lock(mutex_);
  const int count = counts_[ranks]++;
  const std::string text = fmt::format("{}#{}", join_text(ranks, ","), count);
  return kGroupKeys | (std::hash<std::string>()(text) >> 3);
}

std::unique_ptr<Exchange> Agreements::next_exchange(const WaitOptions& options) {
  return make_(job_key(rounds_.fetch_add(1)), everyone_, options);
}

Status Agreements::agree(const std::string& change, const WaitOptions& options) {
  RONDE_ASSIGN_OR_RETURN(const auto changes, next_exchange(options)->allgather(change));
  for (std::size_t r = 1; r < changes.size(); ++r) {
    if (changes[r] != changes[0]) {
      return {Code::kMismatch, fmt::format("process sets: rank 0 asked to {}, rank {} to {}",
                                           changes[0], r, changes[r])};
    }
  }
  return {};
}

Status Agreements::share_outcome(const Status& mine, const WaitOptions& options) {
  return first_error(*next_exchange(options), everyone_, mine);
}

Result<std::string> first_objection(Exchange& exchange, const std::vector<int>& ranks,
                                    const Status& mine) {
  RONDE_ASSIGN_OR_RETURN(const auto errors, exchange.allgather(mine.message()));
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!errors[i].empty()) return fmt::format("rank {}: {}", ranks[i], errors[i]);
  }
  return std::string();
}

Status first_error(Exchange& exchange, const std::vector<int>& ranks, const Status& mine) {
  RONDE_ASSIGN_OR_RETURN(const std::string objection, first_objection(exchange, ranks, mine));
  if (!mine.ok() || objection.empty()) return mine;
  return {Code::kUnavailable, objection};
}

Result<SetId> agree_on_id(Exchange& exchange, const std::vector<int>& ranks,
                          const std::string& name, SetId least) {
  RONDE_ASSIGN_OR_RETURN(const auto names, exchange.allgather(name));
  RONDE_ASSIGN_OR_RETURN(const auto ids, exchange.allgather(fmt::to_string(least)));
  SetId id = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (names[i] != names[0]) {
      return Status(Code::kMismatch,
                    fmt::format("rank {} opens the set \"{}\", rank {} the set \"{}\"", ranks[0],
                                names[0], ranks[i], names[i]));
    }
    SetId theirs = 0;
    std::from_chars(ids[i].data(), ids[i].data() + ids[i].size(), theirs);
    id = std::max(id, theirs);
  }
  return id;
}

namespace {

constexpr std::array<std::string_view, 15> kShared = {
    "RONDE_ALGORITHM",         "RONDE_DETERMINISTIC",    "RONDE_FUSION_THRESHOLD",
    "RONDE_PARTITION_BYTES",   "RONDE_CACHE_CAPACITY",   "RONDE_INLINE_PAYLOAD_BYTES",
    "RONDE_RECONNECT_SECONDS", "RONDE_CHECK_FIRST_STEP", "RONDE_REPLICA_CHECK_STEPS",
    "RONDE_REPLICA_CHECK",     "RONDE_CHECK_NONFINITE",  "RONDE_CHECK_MEAN",
    "RONDE_CHECK_SUMS",        "RONDE_CHECKSUMS",        "RONDE_SPARSE_PATH"};

/// The settings of one rank.
struct SharedSettings {
  std::vector<std::string> values;  ///< By kShared.
  Carried carried;                  ///< With the tuning of rank 0 alone.
  Status tuning_error;              ///< Why rank 0 has none.
  Status backend_error;             ///< JoiningRank::backend.

  static void fields(auto& wire, auto& self) {
    wire(self.values, self.carried, self.tuning_error, self.backend_error);
  }
};

/// The file may be on the host of a rank that has died.
void read_tuning_into(SharedSettings& settings, const Config& config) {
  if (config.tuning_file.empty() || !settings.carried.tuning.empty()) return;
  auto text = read_tuning(config.tuning_file);
  settings.tuning_error = text.status();
  if (!text.ok()) return;
  settings.tuning_error = parse_tuning(*text, config.tuning_file).status();
  if (settings.tuning_error.ok()) settings.carried.tuning = std::move(*text);
}

SharedSettings settings_of(const Config& config, JoiningRank mine) {
  SharedSettings settings;
  settings.carried = std::move(mine.carried);
  settings.backend_error = std::move(mine.backend);
  for (const std::string_view name : kShared) {
    settings.values.emplace_back(setting_value(config, name));
  }
  if (mine.rank == 0) {
    read_tuning_into(settings, config);
  } else {
    settings.carried.tuning.clear();
  }
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

/// The first rank's error.
Status check_backends(const std::vector<SharedSettings>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Status& error = all[rank].backend_error;
    if (error.ok()) continue;
    return {error.code(), fmt::format("rank {}: {}", rank, error.message())};
  }
  return {};
}

AgreedSettings combine(const std::vector<SharedSettings>& all) {
  AgreedSettings agreed;
  agreed.carried.tuning = all[0].carried.tuning;
  for (const SharedSettings& one : all) {
    agreed.carried.steps = std::max(agreed.carried.steps, one.carried.steps);
    agreed.carried.residuals = std::max(agreed.carried.residuals, one.carried.residuals);
    if (one.carried.was_member) ++agreed.old_members;
  }
  return agreed;
}

}  // namespace

Result<AgreedSettings> agree_on_settings(const Config& config, JoiningRank mine,
                                         Exchange& exchange) {
  RONDE_ASSIGN_OR_RETURN(
      const auto answers,
      exchange.allgather(encode_wire<std::string>(settings_of(config, std::move(mine)))));
  std::vector<SharedSettings> all;
  for (const std::string& answer : answers) {
    RONDE_ASSIGN_OR_RETURN(all.emplace_back(),
                           decode_wire<SharedSettings>(as_bytes(answer), "list of settings"));
  }
  RONDE_RETURN_IF_ERROR(compare(all));
  RONDE_RETURN_IF_ERROR(all[0].tuning_error);
  RONDE_RETURN_IF_ERROR(check_backends(all));
  AgreedSettings agreed = combine(all);
  if (agreed.carried.tuning.empty()) return agreed;
  RONDE_ASSIGN_OR_RETURN(agreed.tuned, parse_tuning(agreed.carried.tuning, "of rank 0"));
  return agreed;
}

}  // namespace ronde
