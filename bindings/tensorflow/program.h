// What the traced functions of this process consist of, as ronde.tensorflow has told.
#pragma once

#include <cstdint>
#include <string>

namespace ronde::tensorflow {

/// The number of no program: in eager mode, where nothing is said.
constexpr std::int64_t kEagerProgram = -1;

/// The collectives of program number `number` in a process set, in words; empty where nothing is
/// known of it, as of one that another process traced and saved. Threads: any.
std::string program_text(std::int64_t number, std::int32_t set);

}  // namespace ronde::tensorflow
