// The limit of data that travels with the agreement: a header of its own, as few need it.
#pragma once

#include <cstddef>

namespace ronde {

/// The most of Config::inline_payload_bytes. All of it fits into one frame.
inline constexpr std::size_t kMaxPayloadBytes = std::size_t{16} << 10;

}  // namespace ronde
