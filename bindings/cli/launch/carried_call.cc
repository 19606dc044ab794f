#include "bindings/cli/launch/carried_call.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "bindings/cli/launch/failure_report.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/json.h"

namespace ronde {
namespace {

Result<FileDescriptor> make_file(const char* name) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return errno_status("cannot make a memory file", Code::kResourceExhausted);
  return file;
}

}  // namespace

void CarriedCall::take(std::string_view bytes) {
  if (status_.ok()) status_ = append(bytes);
}

Status CarriedCall::append(std::string_view bytes) {
  if (!call_.valid()) {
    RONDE_ASSIGN_OR_RETURN(call_, make_file("ronde-call"));
  }
  while (!bytes.empty()) {
    const ssize_t written = ::write(call_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return errno_status("cannot keep the function to call", Code::kResourceExhausted);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<FileDescriptor> make_answer_file() { return make_file("ronde-answer"); }

void send_answer(int file, const std::function<void(std::string piece)>& send) {
  const int seals = ::fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_WRITE) == 0) return;
  for (off_t at = 0;;) {
    std::string piece(kCallPieceBytes, '\0');
    const ssize_t count = ::pread(file, piece.data(), piece.size(), at);
    if (count < 0) return;
    piece.resize(static_cast<std::size_t>(count));
    send(std::move(piece));
    if (count == 0) return;
    at += count;
  }
}

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
  Json failure = Json::object();
  if (cause != nullptr) {
    failure = {{"host", cause->host}, {"pid", cause->pid}, {"rank", cause->rank}};
  }
  failure["text"] = text;
  std::ofstream(folder_ / kFailure) << print_json(failure);
}

}  // namespace ronde
