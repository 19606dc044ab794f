// A fast hash of bytes, to compare data between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ronde {

/// 64 bits that differ between different bytes, except by a chance of about 2^-64. The same on all
/// hosts of one byte order. Not for secrets: bytes of the same hash can be constructed.
/// Source: XXH64, with seed 0, as the xxHash specification (Collet, 2012) has it.
std::uint64_t hash64(std::span<const std::byte> bytes) noexcept;

}  // namespace ronde
