// The arguments of the kernels of int8 and int4, on the host and on devices.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ronde::compression {

/// One block to be rounded to whole multiples of its scale.
struct QuantisedBlock {
  const float* values = nullptr;
  std::size_t count = 0;
  float scale = 0.0F;
  float steps = 127.0F;   ///< The largest multiple.
  std::int32_t bias = 0;  ///< Added to each multiple.
  float* lost = nullptr;  ///< As in EncodeCall.
  std::uint64_t offset = 0;
  std::uint32_t key = 0;
};

/// Thirty-two bits that depend on all bits of a key.
constexpr std::uint32_t fold_key(std::uint64_t key) noexcept {
  key = (key ^ (key >> 33)) * 0xff51afd7ed558ccdULL;
  key = (key ^ (key >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return static_cast<std::uint32_t>(key ^ (key >> 32));
}

}  // namespace ronde::compression
