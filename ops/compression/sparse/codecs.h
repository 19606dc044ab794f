// topk and randomk: how many elements of a tensor they send. sparse/allreduce.h sends them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/compression/registry.h"

namespace ronde {

/// The elements of largest magnitude. Source: Lin et al., "Deep Gradient Compression", ICLR 2018.
extern const CodecRow kTopkCodec;

/// Elements drawn at random, the same ones on all ranks. It learns too slowly for `auto`.
extern const CodecRow kRandomkCodec;

/// The share of elements that a spec sends at a step. A warm-up sends all in its first sixteenth,
/// 1/4 until its eighth, 1/16 until its quarter, 1/64 until its half, and 1/256 in the rest, unless
/// the ratio is larger. Each stage but the first two takes as many steps as all before it, and half
/// the bytes of the one before: what a tensor has collected is sent before little is.
double ratio_at(const CompressionSpec& spec, std::uint64_t step) noexcept;

/// How many of `count` elements a ratio is: at least 1 of any.
std::size_t chosen_elements(double ratio, std::size_t count) noexcept;

}  // namespace ronde
