// Who recorded a trace and by which clock: the first thing a trace says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ronde {

/// Who recorded a trace, and when its time 0 was on two clocks.
struct RecordingInfo {
  int rank = 0;
  int size = 1;
  std::string host;
  std::string boot_id;               ///< Same for all recordings that share a steady clock.
  std::int64_t steady_start_ns = 0;  ///< Steady clock at time 0.
  std::int64_t epoch_start_us = 0;   ///< Wall clock at time 0.
  std::string job = {};              ///< Same for all ranks of a job; may be empty.
  int cores = 0;                     ///< Of the host; 0: not told.
  std::string network_card = {};     ///< That carries data between hosts; may be empty.
  int network_megabits = 0;          ///< A second, as that claims; 0: not told.
  std::int64_t fusion_bytes = -1;    ///< Most that is fused; 0: nothing is; -1: not told.
  int part = 0;  ///< Counts the files of a recording from 1 where it may have several.
};

/// Tells this boot of this host from all others.
std::string this_boot_id();

/// The first lines of a trace: process name and clocks. Lines are joined by ",\n".
std::string format_header(const RecordingInfo& info);

/// What `event`, a JSON object, says of a recording; nothing where it is another event or no JSON.
/// Only the wall clock must be there; the rank is -1 and the rest empty where not told.
std::optional<RecordingInfo> parse_recording(std::string_view event);

}  // namespace ronde
