// Views of plain values as bytes, a fast hash to compare bytes between ranks, and a faster checksum
// for bytes that are moved anyway.
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

/// The checksum of bytes that are passed in blocks of kBlockBytes, the last one of fewer. The same
/// only for the same blocks, on all hosts of one byte order.
///
/// Eight lanes of 64 bits each have a sum of their words, and a sum of these sums that is rotated
/// from word to word. A change within any 64 bytes in a row changes a plain sum for certain.
/// Changes that cancel in a plain sum, as of one bit twice, change the mixed one; value() is 64
/// bits of XXH3 of all, so that a change stays hidden by a chance of about 2^-64.
class Checksum {
 public:
  static constexpr std::size_t kLineBytes = 64;
  /// A block is added with one look at each byte. It stays in the L1 cache.
  static constexpr std::size_t kBlockBytes = std::size_t{4} << 10;

  void add(std::span<const std::byte> block) noexcept;
  /// Copies a block, and adds the bytes as they are copied. The second: from memory or
  /// another core's cache, of which it asks for the next block.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
  void copy_from_afar(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
  [[nodiscard]] std::uint64_t value() const noexcept;

  struct Sums {
    std::uint64_t plain[kLineBytes / sizeof(std::uint64_t)] = {};
    std::uint64_t mixed[kLineBytes / sizeof(std::uint64_t)] = {};
  };

 private:
  Sums sums_;
  std::uint64_t bytes_ = 0;
};

/// The checksum of `bytes`, in blocks of Checksum::kBlockBytes: half the time of hash64().
std::uint64_t checksum64(std::span<const std::byte> bytes) noexcept;

/// The loops of this file for an instruction set; see bytes_inl.h.
struct ByteLoops {
  using OfBlock = void (*)(Checksum::Sums& sums, std::byte* to, const std::byte* from,
                           std::size_t bytes) noexcept;
  std::uint64_t (*hash)(const void* data, std::size_t bytes) noexcept;
  OfBlock add;
  OfBlock copy;
  OfBlock copy_from_afar;
};

}  // namespace ronde
