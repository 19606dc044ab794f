// Frames of every codec, from a peer that may have written anything.
#include <algorithm>
#include <array>
#include <vector>

#include "ops/compression/codec.h"
#include "ops/compression/sparse/frame.h"
#include "tests/fuzz/input.h"

namespace {

/// Frames of chosen elements.
void decode_chosen(std::span<const std::byte> bytes, std::size_t count) {
  ronde::SparseVector vector;
  if (!ronde::decode_sparse(bytes, count, vector).ok()) return;
  if (vector.values.size() != vector.indices.size()) __builtin_trap();
  for (const std::uint32_t index : vector.indices) {
    if (index >= count) __builtin_trap();
  }
  std::vector<std::byte> again;
  ronde::encode_sparse(vector, count, again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ronde::FuzzInput input(data, size);
  constexpr std::array kTexts{"fp16", "bf16", "int8:block=64", "int4:block=128", "onebit:block=64"};
  const std::string_view name = kTexts[input.byte() % kTexts.size()];
  const auto codec = ronde::make_codec(*ronde::parse_compression(name));
  const std::size_t count = input.byte() * 8U + input.byte() % 8U;
  const auto rest = input.rest();
  decode_chosen(rest, count);
  const std::size_t length = codec->encoded_bytes(count);
  std::vector<std::byte> frame(length);
  std::copy_n(rest.begin(), std::min(rest.size(), length), frame.begin());
  std::vector<float> values(count, 1.0F);
  if (!codec->decode(frame, values).ok() || !codec->decode_add(frame, values).ok())
    __builtin_trap();
  if (rest.size() != length && codec->decode(rest, values).ok()) __builtin_trap();
  std::vector<float> lost(count);
  codec->encode({values, frame.data(), lost.data(), 1, 2});
  return 0;
}
