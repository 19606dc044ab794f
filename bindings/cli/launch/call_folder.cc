#include "bindings/cli/launch/call_folder.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/os/file_descriptor.h"

namespace ronde {

Result<std::vector<std::string>> CallFolder::frames() const {
  std::vector<std::string> frames;
  if (folder_.empty()) return frames;
  std::ifstream file(folder_ / kCall, std::ios::binary);
  const std::string call((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file || call.empty()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--call-folder {}: there is no {}", folder_.string(), kCall));
  }
  for (std::size_t begin = 0; begin < call.size(); begin += kCallPieceBytes) {
    frames.push_back(encode(CallMessage{call.substr(begin, kCallPieceBytes)}));
  }
  return frames;
}

Status CallFolder::take(const AnswerMessage& message) const {
  if (folder_.empty()) return {};
  const auto part = folder_ / fmt::format("{}.part", message.rank);
  if (!message.bytes.empty()) {
    std::ofstream file(part, std::ios::binary | std::ios::app);
    file << message.bytes << std::flush;
    if (!file) return errno_status("cannot write " + part.string());
    return {};
  }
  std::error_code error;
  std::filesystem::rename(part, folder_ / fmt::format("{}.pickle", message.rank), error);
  if (!error) return {};
  return {Code::kUnavailable, fmt::format("cannot write {}: {}", part.string(), error.message())};
}

void CallFolder::write_failure(const std::string& text, const RankEnd* cause) const {
  if (folder_.empty()) return;
  nlohmann::json failure = {{"text", text}};
  if (cause != nullptr) {
    failure.update({{"rank", cause->rank}, {"host", cause->host}, {"pid", cause->pid}});
  }
  std::ofstream(folder_ / kFailure)
      << failure.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ronde
