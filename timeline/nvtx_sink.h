// Events as NVTX ranges, which Nsight Systems and other tools show beside what a GPU does.
#pragma once

#include <memory>
#include <string_view>

#include "core/ports/event_sink.h"

namespace ronde {

/// Tells NVTX (domain "ronde") of every span and mark, and passes all events on.
/// Threads: any. Blocks: never for long.
class NvtxSink : public EventSink {
 public:
  /// `next` hears of all events too; null: nobody. It outlives all events that come until the next
  /// call.
  virtual void pass_on_to(EventSink* next) noexcept = 0;
};

/// Why this build has no NVTX; empty where it has.
std::string_view nvtx_missing() noexcept;

/// Null where this build has no NVTX.
std::unique_ptr<NvtxSink> create_nvtx_sink();

}  // namespace ronde
