#include "core/base/wire_codec.h"

#include <fmt/format.h>

namespace ronde {

Status WireReader::status() const {
  if (ok()) return {};
  return {Code::kInvalidArgument, fmt::format("malformed {}: at byte {} of {}, {}", what_,
                                              failed_at_, bytes_.size(), why_)};
}

void WireReader::get(Status& status) {
  Code code = Code::kOk;
  std::string message;
  bool has_rank = false;
  FailedRank failed;
  (*this)(code, message, has_rank);
  if (has_rank) (*this)(failed.rank, failed.host, failed.pid);
  require(code <= kLastCode, "an error's code is unknown");
  require(!has_rank || failed.rank >= 0, "an error is about no rank");
  status = {};
  if (!ok() || code == Code::kOk) return;
  status = Status(code, std::move(message));
  if (has_rank) status = status.about(std::move(failed));
}

}  // namespace ronde
