// The head of a trace: who recorded it, by which clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/clock.h"

namespace ronde {

/// Nanoseconds of the steady clock.
inline std::int64_t steady_ns() noexcept { return to_ns(now()); }

/// The row (Chrome's process) of an elastic job's launcher: above all numbers of workers.
inline constexpr int kJobRow = 1'000'000'000;

/// The rank that recorded a trace, and the trace's time 0 on two clocks. In an elastic job each
/// worker makes one recording in each epoch; the launcher makes one of the job.
struct RecordingInfo {
  int rank = 0;  ///< -1: unknown, or the launcher.
  int size = 1;
  std::string host = {};
  std::string boot_id = {};            ///< The same for all recordings that share a steady clock.
  std::int64_t steady_start_ns = 0;    ///< Steady clock at time 0.
  std::int64_t epoch_start_us = 0;     ///< Wall clock at time 0.
  std::string job = {};                ///< The same for all ranks of a job; may be empty.
  int cores = 0;                       ///< Of the host; 0: unknown.
  std::string network_interface = {};  ///< Of connections between hosts; may be empty.
  int network_megabits = 0;            ///< Their nominal speed together; 0: unknown.
  std::int64_t fusion_bytes = -1;      ///< Fusion threshold; 0: no fusion; -1: unknown.
  int part = 0;    ///< Number of the file, from 1, if the recording may have several.
  int worker = 0;  ///< Of an elastic job, from 1; 0: no such job, or the launcher.
  int epoch = 0;   ///< Of an elastic job, from 1; 0: no such job, or the launcher.
  bool launcher = false;

  /// Calls `use(name, field, missing)` for each field of a trace's head. `missing` is what the
  /// field is read as where a head has none, so such values are not written.
  template <typename Info, typename Use>
  static void fields(Info& info, Use&& use) {
    use("rank", info.rank, -1);
    use("size", info.size, 0);
    use("job", info.job, "");
    use("host", info.host, "");
    use("start_time_since_epoch_in_micros", info.epoch_start_us, -1);
    use("steady_start_ns", info.steady_start_ns, 0);
    use("boot_id", info.boot_id, "");
    use("cores", info.cores, 0);
    use("fusion_bytes", info.fusion_bytes, -1);
    use("part", info.part, 0);
    use("network_interface", info.network_interface, "");
    use("network_megabits", info.network_megabits, 0);
    use("worker", info.worker, 0);
    use("epoch", info.epoch, 0);
    use("launcher", info.launcher, false);
  }

  /// The recording's row in the merged trace: Chrome's pid.
  [[nodiscard]] int row() const noexcept {
    if (launcher) return kJobRow;
    return worker > 0 ? worker : rank;
  }
};

/// Fields of the launcher's events in elastic jobs.
struct LauncherFacts {
  int epoch = 0;
  int worker = 0;
  std::string_view worker_event = {};  ///< "died", ...
  std::string_view workers = {};       ///< Of an epoch, by rank: "1,3,4".
  std::string_view why = {};

  /// As EventArgs::fields.
  template <typename Facts, typename Use>
  static void fields(Facts& facts, Use&& use) {
    use("epoch", facts.epoch);
    use("worker", facts.worker);
    use("event", facts.worker_event);
    use("workers", facts.workers);
    use("why", facts.why);
  }
};

/// Identifies this boot of this host.
std::string this_boot_id();

/// Sets the clocks of a recording that begins now.
void set_start(RecordingInfo& info);

/// The first lines of a trace: process name and clocks. They are joined by ",\n".
std::string format_header(const RecordingInfo& info);

/// Reads the head from `event`, a JSON object. Returns nothing for other events and malformed JSON.
/// Only the wall clock is required: a missing rank is -1, other missing fields are empty.
std::optional<RecordingInfo> parse_recording(std::string_view event);

}  // namespace ronde
