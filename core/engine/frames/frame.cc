#include "core/engine/frames/frame.h"

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

void HeldFrames::on_frame(int from, std::span<const std::byte> frame) {
  const auto header = read_header(frame);
  Status failure;
  if (header && header->kind == EnginePart::kFailure &&
      read_failure(frame.subspan(sizeof(FrameHeader)), failure).ok()) {
    abort_.abort(failure);
  }
  held_.emplace_back([from, bytes = std::vector(frame.begin(), frame.end())](ChannelSink& sink) {
    sink.on_frame(from, bytes);
  });
}

void HeldFrames::on_peer_lost(int rank, const Status& reason) {
  held_.emplace_back([rank, reason](ChannelSink& sink) { sink.on_peer_lost(rank, reason); });
}

void HeldFrames::on_peer_left(int rank, const Status& reason) {
  held_.emplace_back([rank, reason](ChannelSink& sink) { sink.on_peer_left(rank, reason); });
}

bool HeldFrames::deliver(ChannelSink& sink) {
  const auto held = std::exchange(held_, {});
  for (const auto& give : held) give(sink);
  return !held.empty();
}

}  // namespace ronde
