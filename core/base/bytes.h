// Views of plain values as bytes, and a fast hash to compare bytes between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ronde {

inline std::span<const std::byte> as_bytes(std::string_view text) noexcept {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

inline std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// 64 bits that differ between different bytes, except by a chance of about 2^-64. The same on all
/// hosts. Not for secrets: bytes of the same hash can be constructed.
/// Source: XXH3 of xxHash 0.8, with seed 0, which hashes as fast as memory is read.
std::uint64_t hash64(std::span<const std::byte> bytes) noexcept;

/// The checksum of bytes that are passed block by block. The same only for the same blocks.
class Checksum {
 public:
  void add(std::span<const std::byte> block) noexcept {
    value_ = (value_ ^ hash64(block)) * 0x9e3779b97f4a7c15U;
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace ronde
