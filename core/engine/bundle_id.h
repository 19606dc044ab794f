// The parts of a bundle's id. The engine makes it, and readers of traces take it apart.
#pragma once

namespace ronde {

/// Bits of the count of a set's bundles. The set's id is above them. JSON is exact to 53 bits.
inline constexpr int kBundleBits = 40;

}  // namespace ronde
