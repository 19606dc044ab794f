#include "core/engine/failure_frame.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "core/base/bytes.h"

namespace ronde {
namespace {

constexpr std::size_t kMaxMessageBytes = 4096;

/// What stands before host and message.
struct Head {
  std::int32_t code = 0;
  std::int32_t rank = -1;
  std::int32_t pid = 0;
  std::uint32_t host_bytes = 0;
};

}  // namespace

std::vector<std::byte> make_failure(const Status& status) {
  const FailedRank who = status.failed_rank().value_or(FailedRank{});
  const std::string host = who.host.substr(0, kMaxMessageBytes);
  const std::string text = host + status.message().substr(0, kMaxMessageBytes);
  const Head head{static_cast<std::int32_t>(status.code()), who.rank, who.pid,
                  static_cast<std::uint32_t>(host.size())};
  std::vector<std::byte> payload(sizeof head + text.size());
  std::memcpy(payload.data(), &head, sizeof head);
  if (!text.empty()) std::memcpy(payload.data() + sizeof head, text.data(), text.size());
  return payload;
}

Status read_failure(std::span<const std::byte> payload, Status& failure) {
  Head head;
  if (payload.size() < sizeof head) return {Code::kInvalidArgument, "a failure is too short"};
  std::memcpy(&head, payload.data(), sizeof head);
  const auto text = as_text(payload.subspan(sizeof head));
  const bool known = head.code > 0 && head.code <= static_cast<std::int32_t>(Code::kInternal);
  if (!known || head.host_bytes > text.size()) {
    return {Code::kInvalidArgument, "a failure makes no sense"};
  }
  failure = Status(static_cast<Code>(head.code), std::string(text.substr(head.host_bytes)));
  if (head.rank >= 0) {
    const std::string host(text.substr(0, head.host_bytes));
    failure = failure.about({head.rank, host, head.pid});
  }
  return {};
}

}  // namespace ronde
