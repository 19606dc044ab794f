#include "core/engine/key_value_exchange.h"

#include <cstring>

#include "core/base/bytes.h"

namespace ronde {

Status KeyValueExchange::on_frame(int from, std::uint64_t key, std::span<const std::byte> payload) {
  std::uint32_t round = 0;
  if (payload.size() < sizeof round) {
    return {Code::kInvalidArgument, "an exchange frame is too short"};
  }
  std::memcpy(&round, payload.data(), sizeof round);
  MutexLock lock(mutex_);
  values_[{key, round, from}] = as_text(payload.subspan(sizeof round));
  return {};
}

std::vector<std::byte> KeyValueExchange::make_payload(std::uint32_t round, std::string_view value) {
  std::vector<std::byte> payload(sizeof round + value.size());
  std::memcpy(payload.data(), &round, sizeof round);
  if (!value.empty()) std::memcpy(payload.data() + sizeof round, value.data(), value.size());
  return payload;
}

std::vector<int> KeyValueExchange::missing(std::uint64_t key, std::uint32_t round,
                                           std::span<const int> ranks, int self) {
  MutexLock lock(mutex_);
  std::vector<int> absent;
  for (const int rank : ranks) {
    if (rank != self && !values_.contains({key, round, rank})) absent.push_back(rank);
  }
  return absent;
}

std::optional<std::vector<std::string>> KeyValueExchange::take(std::uint64_t key,
                                                               std::uint32_t round,
                                                               std::span<const int> ranks, int self,
                                                               std::string_view mine) {
  if (!missing(key, round, ranks, self).empty()) return std::nullopt;
  MutexLock lock(mutex_);
  std::vector<std::string> all;
  for (const int rank : ranks) {
    if (rank == self) {
      all.emplace_back(mine);
      continue;
    }
    auto node = values_.extract({key, round, rank});
    all.push_back(std::move(node.mapped()));
  }
  return all;
}

}  // namespace ronde
