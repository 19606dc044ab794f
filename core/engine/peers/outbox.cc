#include "core/engine/peers/outbox.h"

namespace ronde {

void Outbox::send_all(EnginePart kind, std::uint64_t id) {
  FrameHeader header;
  header.kind = kind;
  header.id = id;
  for (const OutFrame& frame : frames_) {
    const Status status = channel_.send(frame.to, make_frame(buffer_, header, frame.bytes));
    if (!status.ok() && status.code() != Code::kRankFailure) on_error_(status);
  }
  frames_.clear();
}

}  // namespace ronde
