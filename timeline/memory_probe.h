// Measures how fast one thread copies memory, to compare bandwidth inside a host with.
#pragma once

#include <string_view>

namespace ronde {

/// The counter of that speed. Written once, when a recording ends.
inline constexpr std::string_view kMemoryCopyCounter = "memory copy in GB/s";
/// Counters of the CPU time that compression takes for each byte of fp32 in an allreduce.
inline constexpr std::string_view kFp16CodingCounter = "fp16 coding in ns per byte";
inline constexpr std::string_view kInt8CodingCounter = "int8 coding in ns per byte";

/// Bytes copied per nanosecond of CPU time: the best of a few copies of 8 MB. 0 if memory is short.
/// Takes about 10 ms.
double measure_copy_gbps();

}  // namespace ronde
