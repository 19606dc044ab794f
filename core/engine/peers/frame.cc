#include "core/engine/peers/frame.h"

#include <optional>
#include <string>
#include <utility>

namespace ronde {
namespace {

constexpr std::size_t kMaxTextBytes = 4096;

std::string shortened(const std::string& text) { return text.substr(0, kMaxTextBytes); }

}  // namespace

std::vector<std::byte> make_failure(const Status& status) {
  Status sent(status.code(), shortened(status.message()));
  const std::optional<FailedRank>& who = status.failed_rank();
  if (who) sent = sent.about({who->rank, shortened(who->host), who->pid});
  return encode_wire(sent);
}

Status read_failure(std::span<const std::byte> payload, Status& failure) {
  WireReader reader(payload, "failure");
  Status read;
  reader(read);
  reader.require(!read.ok(), "it is no error");
  RONDE_RETURN_IF_ERROR(reader.finish());
  failure = std::move(read);
  return {};
}

}  // namespace ronde
