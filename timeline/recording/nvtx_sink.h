// Events as NVTX ranges, which Nsight Systems and other tools show beside the GPU's work.
#pragma once

#include <memory>
#include <string_view>

#include "core/ports/event_sink.h"

namespace ronde {

/// Reports every span and mark to NVTX (domain "ronde"). Passes all events on.
/// Threads: any. Blocks: never for long.
class NvtxSink : public EventSink {
 public:
  /// `next` receives all events too; null: none. It outlives all events until the next call.
  virtual void pass_on_to(EventSink* next) noexcept = 0;
};

/// Why this build has no NVTX; empty if it has.
std::string_view nvtx_missing() noexcept;

/// Null if this build has no NVTX.
std::unique_ptr<NvtxSink> create_nvtx_sink();

}  // namespace ronde
