#include "core/protocol/inline_payload.h"

#include <algorithm>

#include "core/base/wire_codec.h"
#include "core/protocol/frames.h"

namespace ronde {
namespace {

constexpr std::size_t kMost = std::size_t{1} << 62;

/// Each member's input; zeros where it has none. Empty if a rank is there twice or no member.
std::vector<const std::byte*> inputs_of_members(const InlinePayload& payload, std::size_t bytes,
                                                std::span<const int> members,
                                                const std::byte* zeros) {
  std::vector<const std::byte*> inputs(members.size(), zeros);
  for (std::size_t i = 0; i < payload.ranks.size(); ++i) {
    const auto member = std::lower_bound(members.begin(), members.end(), payload.ranks[i]);
    if (member == members.end() || *member != payload.ranks[i]) return {};
    const std::byte*& input = inputs[static_cast<std::size_t>(member - members.begin())];
    if (input != zeros) return {};
    input = payload.bytes.data() + i * bytes;
  }
  return inputs;
}

std::vector<std::byte> reduced(const Request& request, std::span<const std::byte* const> inputs,
                               std::size_t bytes, const PayloadReducer& reducer) {
  std::vector<std::byte> result(bytes);
  std::vector<const void*> parts(inputs.size());
  std::size_t offset = 0;
  for (const TensorMeta& tensor : request.tensors) {
    for (std::size_t i = 0; i < inputs.size(); ++i) parts[i] = inputs[i] + offset;
    reducer.reduce({tensor.dtype, request.op, request.prescale, request.postscale}, parts,
                   result.data() + offset, static_cast<std::size_t>(element_count(tensor.shape)));
    offset += bytes_of(tensor);
  }
  return result;
}

}  // namespace

void InlinePayload::merge(const InlinePayload& other) {
  if (!whole || !other.whole) {
    *this = {};
    return;
  }
  ranks.insert(ranks.end(), other.ranks.begin(), other.ranks.end());
  bytes.insert(bytes.end(), other.bytes.begin(), other.bytes.end());
}

std::size_t payload_bytes(const Request& request) noexcept {
  std::size_t bytes = 0;
  for (const TensorMeta& tensor : request.tensors) {
    bytes = std::min(bytes + bytes_of(tensor), kMost);  // one tensor's bytes fit into 63 bits
  }
  return bytes;
}

bool may_carry_payload(const Request& request) noexcept {
  if (request.weight || !request.compression.empty()) return false;
  if (request.device.kind != DeviceKind::kCpu) return false;
  if (request.kind == Collective::kBroadcast) return true;
  if (request.kind != Collective::kAllreduce || !is_element_wise(request.op)) return false;
  return std::all_of(request.tensors.begin(), request.tensors.end(), [&](const TensorMeta& tensor) {
    return is_defined(request.op, tensor.dtype);
  });
}

bool puts_payload_in(const Request& request, int rank) noexcept {
  return !traits_of(request.kind).rooted() || request.root == rank;
}

Status check_payload(const InlinePayload& payload, const Request& request,
                     std::span<const int> members) {
  if (!payload.whole) {
    return payload.ranks.empty() && payload.bytes.empty()
               ? Status()
               : out_of_protocol("a part of the data of an operation");
  }
  const std::size_t bytes = payload_bytes(request);
  const bool fits = may_carry_payload(request) && bytes > 0 &&
                    payload.ranks.size() <= kMaxPayloadBytes / bytes &&
                    payload.bytes.size() == payload.ranks.size() * bytes;
  if (!fits) return out_of_protocol("data that does not fit its operation");
  for (const int rank : payload.ranks) {
    if (!std::binary_search(members.begin(), members.end(), rank)) {
      return out_of_protocol("data of a rank outside the set");
    }
  }
  return {};
}

std::vector<std::byte> combine(const InlinePayload& payload, const Request& request,
                               std::span<const int> members, const PayloadReducer& reducer) {
  const std::size_t bytes = payload_bytes(request);
  if (!payload.whole || !may_carry_payload(request) ||
      payload.bytes.size() != payload.ranks.size() * bytes) {
    return {};
  }
  if (request.kind == Collective::kBroadcast) {
    const bool is_roots = payload.ranks.size() == 1 && payload.ranks[0] == request.root;
    return is_roots ? payload.bytes : std::vector<std::byte>();
  }
  const std::vector<std::byte> zeros(bytes);
  const auto inputs = inputs_of_members(payload, bytes, members, zeros.data());
  if (inputs.empty() || payload.ranks.empty()) return {};
  return reduced(request, inputs, bytes, reducer);
}

}  // namespace ronde
