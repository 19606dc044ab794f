// Inline payload: the data of a small operation travels with its reports, and its result with the
// batch. Agreement and data then share their round trip. Nothing is added on the way up: the root
// has every rank's input and adds them in ascending order of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/ports/reduce_kernels.h"
#include "core/protocol/request.h"

namespace ronde {

/// Inputs of one operation from one subtree.
struct InlinePayload {
  /// Every rank of the subtree has put in what it must; ranks that have joined put in nothing.
  /// Otherwise it is empty, and the operation moves its data as others do.
  bool whole = false;
  std::vector<int> ranks;        ///< The ranks whose inputs `bytes` has, one after the other.
  std::vector<std::byte> bytes;  ///< Each as large as the operation's tensors together.

  /// Adds the payload of another part of the tree.
  void merge(const InlinePayload& other);
  static void fields(auto& wire, auto& self) { wire(self.whole, self.ranks, self.bytes); }
};

/// Bytes of all tensors of a request, or 2^62 where they are more.
std::size_t payload_bytes(const Request& request) noexcept;

/// True if operations of this kind may carry their data: allreduces with an element-wise operator,
/// and broadcasts, of host memory, neither compressed nor weighted.
bool may_carry_payload(const Request& request) noexcept;

/// True if `rank` puts its input in. In a broadcast the root alone does.
bool puts_payload_in(const Request& request, int rank) noexcept;

/// Checks a payload that came from another rank. `members`: of the set, ascending.
/// Errors: kInvalidArgument where it does not fit the request.
Status check_payload(const InlinePayload& payload, const Request& request,
                     std::span<const int> members);

/// The result of an operation from all inputs, in ascending order of ranks. Ranks without input
/// take part with zeros. Empty if the payload does not have what it must; then the data moves as
/// that of others.
std::vector<std::byte> combine(const InlinePayload& payload, const Request& request,
                               std::span<const int> members, const PayloadReducer& reducer);

}  // namespace ronde
