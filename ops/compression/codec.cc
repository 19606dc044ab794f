#include "ops/compression/codec.h"

#include <fmt/format.h>

#include <bit>

namespace ronde {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

Status Codec::check(std::span<const std::byte> frame, std::size_t count) const {
  if (frame.size() == encoded_bytes(count)) return {};
  return {Code::kInvalidArgument,
          fmt::format("a frame of {} bytes does not hold {} elements of {}; it takes {}",
                      frame.size(), count, name(), encoded_bytes(count))};
}

Status Codec::decode(std::span<const std::byte> frame, std::span<float> out) const {
  RONDE_RETURN_IF_ERROR(check(frame, out.size()));
  kernels_.decode(frame.data(), out, spec_, false);
  return {};
}

Status Codec::decode_add(std::span<const std::byte> frame, std::span<float> out) const {
  RONDE_RETURN_IF_ERROR(check(frame, out.size()));
  kernels_.decode(frame.data(), out, spec_, true);
  return {};
}

}  // namespace ronde
