// What one rank's flight recorder held at one moment, and what its threads were doing: the text
// that a rank writes when it fails, stalls or is asked, and reading it back. docs/reliability.md
// describes the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// One operation. Times are of the steady clock, in ns; 0: not reached.
struct DumpOperation {
  std::uint64_t number = 0;  ///< Counts the rank's operations from 1.
  std::string name;
  std::string kind;
  std::int32_t set = 0;
  std::uint64_t bytes = 0;
  std::uint64_t call = 0;  ///< Of a raw group: counts its operations from 1; else 0.
  std::int64_t submitted_ns = 0;
  std::int64_t agreed_ns = 0;
  std::int64_t started_ns = 0;
  std::int64_t done_ns = 0;
  std::string status;  ///< How it ended, such as "ok" or "rank failure"; of meaning once done.

  [[nodiscard]] bool done() const { return done_ns != 0; }
};

/// One thread of the rank.
struct DumpThread {
  int tid = 0;
  std::string name;
  std::string state;                ///< As the kernel sees it: "S (sleeping), in futex_wait_queue".
  std::vector<std::string> frames;  ///< Innermost first; empty where it could not be asked.
};

/// One dump.
struct Dump {
  std::string job;
  int rank = 0;
  int size = 1;
  std::string host;
  int pid = 0;
  std::string reason;          ///< "failure", "stall", "signal" or "doctor".
  std::string failure;         ///< Why the job is broken; empty where it is not.
  int failed_rank = -1;        ///< Which rank broke it, or -1.
  std::int64_t epoch_ns = 0;   ///< Wall clock when it was made,
  std::int64_t steady_ns = 0;  ///< and the steady clock.
  std::vector<DumpOperation> operations;
  std::vector<DumpThread> threads;
};

/// The dump as lines of JSON: its head, each operation, each thread, and a line that ends it.
std::string format_dump(const Dump& dump);

/// Reads what one or several format_dump() have written, one after the other. A last one that was
/// cut off is returned as far as it goes. Unknown lines and fields are skipped.
/// Errors: kInvalidArgument naming the line, where a line is no JSON object or comes before a head;
/// kResourceExhausted where there are more dumps or lines than a job can make.
Result<std::vector<Dump>> read_dumps(std::string_view text);

/// The last line of a dump.
inline constexpr std::string_view kDumpEnd = "{\"type\":\"end\"}\n";

/// What ended with an error so shortly before a dump is what the dump is about.
inline constexpr std::int64_t kJustFailedNs = 1'000'000'000;

/// A dump for the log, in a line or two: what is pending for how long, what has just failed, and
/// what ended well last.
std::string summarize_dump(const Dump& dump);

/// `"layer1/weight"`, or `group of ranks 0,1, call 7`.
std::string shown_name(const DumpOperation& operation);

/// `"layer1/weight" (allreduce, 4096 bytes), 1.2 s, waiting for other ranks`.
std::string describe_pending_operation(const DumpOperation& operation, std::int64_t now_ns);
/// `allreduce "layer1/weight", 0.3 s ago`, or "none yet".
std::string describe_last_finished(const Dump& dump);

}  // namespace ronde
