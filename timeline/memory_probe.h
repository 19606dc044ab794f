// How fast one thread copies memory: what bandwidth inside a host is held against.
#pragma once

#include <string_view>

namespace ronde {

/// The counter that says it, once, where a recording ends.
inline constexpr std::string_view kMemoryCopyCounter = "memory copy in GB/s";
/// Likewise, of what compression takes the processor for each byte of fp32 in an allreduce.
inline constexpr std::string_view kFp16CodingCounter = "fp16 coding in ns per byte";
inline constexpr std::string_view kInt8CodingCounter = "int8 coding in ns per byte";

/// Bytes copied per nanosecond of CPU time, the best of a few copies of 8 MB; 0 where there is no
/// memory for it. Takes some 10 ms.
double measure_copy_gbps();

}  // namespace ronde
