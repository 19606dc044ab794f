// Small operations that carry their data: a reducer of float32, and payloads for tests.
#pragma once

#include <cstring>
#include <vector>

#include "core/protocol/inline_payload.h"
#include "tests/core/protocol/harness.h"

namespace ronde {

/// Adds float32 from the left, whatever the operator.
class AddingReducer final : public PayloadReducer {
 public:
  void reduce(const ReductionRequest&, std::span<const void* const> inputs, void* out,
              std::size_t count) const noexcept override {
    for (std::size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (const void* input : inputs) {
        float value = 0;
        std::memcpy(&value, static_cast<const float*>(input) + i, sizeof(value));
        sum += value;
      }
      std::memcpy(static_cast<float*>(out) + i, &sum, sizeof(sum));
    }
  }
};

inline std::vector<std::byte> bytes_of_floats(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Makes the payload of `rank` for a request of float32. All its elements are `value`.
inline InlinePayload payload_of(const Request& request, int rank, float value) {
  InlinePayload payload{.whole = true, .ranks = {}, .bytes = {}};
  if (!puts_payload_in(request, rank)) return payload;
  payload.ranks = {rank};
  payload.bytes = bytes_of_floats(std::vector<float>(payload_bytes(request) / 4, value));
  return payload;
}

/// Options of members whose operations carry up to `bytes` of all ranks together.
inline MemberOptions carrying(std::size_t bytes) {
  static const AddingReducer kReducer;
  MemberOptions options;
  options.payload_bytes = bytes;
  options.payloads = &kReducer;
  return options;
}

}  // namespace ronde
