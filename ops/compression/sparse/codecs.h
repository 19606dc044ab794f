// How many elements of a tensor topk and randomk send, and the momentum of those kept back.
// sparse/allreduce.cc sends them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/compression/compressed_work.h"
#include "ops/compression/sparse/exchange.h"
#include "ops/compression/spec.h"

namespace ronde {

/// The share of elements that a spec sends at a step. A warm-up sends all in its first sixteenth
/// and 1/4 until its eighth. Then it sends 1/16 until its quarter, 1/64 until its half, and 1/256
/// in the rest. It never sends less than the ratio. Each stage but the first two takes as many
/// steps as all before it, and half the bytes of the one before: so the elements that a tensor has
/// collected are sent before the share becomes small.
double ratio_at(const CompressionSpec& spec, std::uint64_t step) noexcept;

/// How many of `count` elements a ratio is: at least 1 of any.
std::size_t chosen_elements(double ratio, std::size_t count) noexcept;

/// How much of a tensor this rank sends in this step.
struct SparseShare {
  bool keeps = false;  ///< Elements that are not sent are kept or dropped; else all are sent.
  double ratio = 1.0;
};
SparseShare share_of(const CompressionSpec& spec, const CompressedTensor& tensor) noexcept;

/// How a piece of the tensor travels, with its owners given by `deal`.
SparsePiece piece_of(const CompressionSpec& spec, const SparseShare& share, const Interleave& deal,
                     std::size_t rank) noexcept;

/// Scales values down to a norm of clip / sqrt(ranks) if theirs is larger: `ranks` such vectors of
/// random directions add up to a norm of about `clip`. A norm that is not finite changes nothing.
void clip_locally(double clip, std::size_t ranks, std::span<float> values);

/// velocity <- m * velocity + values; values <- velocity.
/// nesterov: velocity <- m * (velocity + values); values <- velocity + values.
void correct_momentum(double momentum, bool nesterov, std::span<float> velocity,
                      std::span<float> values);

}  // namespace ronde
