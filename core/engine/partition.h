// Cuts a large bundle into partitions that run one after the other, so that something urgent need
// not wait for all of it.
#pragma once

#include <cstddef>
#include <vector>

#include "core/engine/fusion.h"

namespace ronde {

/// Bytes of the bundle that ranks agree on; 0 where its kind has uneven sizes.
std::size_t agreed_bytes(const Bundle& bundle) noexcept;

/// Cuts a bundle into partitions of about equal size, at most `partition_bytes` (0: no limit) but
/// for the alignment of cuts; they depend on the shapes alone, so all ranks cut alike. One
/// partition, `whole` as it is, where it is small enough, of a kind that cannot be cut, or
/// compressed: error feedback goes by whole tensors. Tensors of which a partition has a part appear
/// there flattened. Tells the operations of their pieces.
std::vector<ReadyBundle> cut_bundle(ReadyBundle whole, std::size_t partition_bytes);

}  // namespace ronde
