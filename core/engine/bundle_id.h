// What a bundle's number is made of, for those who make it and those who read it in traces.
#pragma once

namespace ronde {

/// The count of a process set's bundles, below the set's id; JSON's numbers are exact to 53 bits.
inline constexpr int kBundleBits = 40;

}  // namespace ronde
