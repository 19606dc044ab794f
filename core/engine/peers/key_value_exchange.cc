#include "core/engine/peers/key_value_exchange.h"

#include "core/base/bytes.h"
#include "core/base/wire_codec.h"

namespace ronde {

Status KeyValueExchange::on_frame(int from, std::uint64_t key, std::span<const std::byte> payload) {
  WireReader reader(payload, "exchange frame");
  std::uint32_t round = 0;
  reader(round);
  const auto value = as_text(reader.rest());
  RONDE_RETURN_IF_ERROR(reader.finish());
  MutexLock lock(mutex_);
  values_[{key, round, from}] = value;
  return {};
}

std::vector<std::byte> KeyValueExchange::make_payload(std::uint32_t round, std::string_view value) {
  WireWriter writer(sizeof round + value.size());
  writer(round);
  writer.raw(as_bytes(value));
  return writer.take();
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
