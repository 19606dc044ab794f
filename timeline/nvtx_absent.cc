// Replaces nvtx_sink.cc in builds without NVTX's headers.
#include "timeline/nvtx_sink.h"

namespace ronde {

std::string_view nvtx_missing() noexcept { return RONDE_WHY_NVTX; }

std::unique_ptr<NvtxSink> create_nvtx_sink() { return nullptr; }

}  // namespace ronde
