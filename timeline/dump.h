// Dumps: the text that a rank writes when it fails, stalls or receives a request. A dump holds the
// flight recorder's content and the state of the threads. docs/reliability.md describes the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// One operation. Times are nanoseconds of the steady clock; 0: not reached.
struct DumpOperation {
  std::uint64_t number = 0;  ///< Counts the rank's operations from 1.
  std::string name;
  std::string kind;
  std::int32_t set = 0;
  std::uint64_t bytes = 0;
  std::uint64_t call = 0;  ///< Raw groups: counts the group's operations from 1. Otherwise 0.
  std::int64_t submitted_ns = 0;
  std::int64_t agreed_ns = 0;
  std::int64_t started_ns = 0;
  std::int64_t done_ns = 0;
  std::string status;  ///< How it ended: "ok", "rank failure", ... Valid once done.

  [[nodiscard]] bool done() const { return done_ns != 0; }

  /// Calls `use` with the name and the value of each field, in the order of a dump's line.
  static void fields(auto& self, auto use) {
    use("number", self.number);
    use("name", self.name);
    use("kind", self.kind);
    use("set", self.set);
    use("bytes", self.bytes);
    use("call", self.call);
    use("submitted_ns", self.submitted_ns);
    use("agreed_ns", self.agreed_ns);
    use("started_ns", self.started_ns);
    use("done_ns", self.done_ns);
    use("status", self.status);
  }
};

/// One thread of the rank.
struct DumpThread {
  int tid = 0;
  std::string name;
  std::string state;                ///< The kernel's view: "S (sleeping), in futex_wait_queue".
  std::vector<std::string> frames;  ///< Innermost first; empty if it did not answer.

  /// Calls `use` with the name and the value of each field, likewise.
  static void fields(auto& self, auto use) {
    use("tid", self.tid);
    use("name", self.name);
    use("state", self.state);
    use("frames", self.frames);
  }
};

/// One thread that runs the user's script. Lines read "train.py:12 in main".
struct DumpScriptThread {
  int tid = 0;  ///< 0: not known.
  std::string name;
  std::string line;                 ///< The innermost line outside libraries.
  std::vector<std::string> frames;  ///< Innermost first, without Ronde's.

  /// Calls `use` with the name and the value of each field, likewise.
  static void fields(auto& self, auto use) {
    use("tid", self.tid);
    use("name", self.name);
    use("line", self.line);
    use("frames", self.frames);
  }
};

/// One dump.
struct Dump {
  std::string job;
  int rank = 0;
  int size = 1;
  std::string host;
  int pid = 0;
  std::string reason;          ///< "failure", "stall", "signal" or "doctor".
  std::string failure;         ///< Why the job is broken; empty if it is not.
  int failed_rank = -1;        ///< The rank that broke it, or -1.
  std::int64_t epoch_ns = 0;   ///< Wall clock at the moment of the dump.
  std::int64_t steady_ns = 0;  ///< Steady clock at the same moment.
  std::vector<DumpOperation> operations;
  std::vector<DumpThread> threads;
  std::vector<DumpScriptThread> script;  ///< The main thread first; empty in a program without.
  std::string script_error;              ///< The reason why a script's lines are not known.

  /// Calls `use` with the name and the value of each field of the head.
  static void fields(auto& self, auto use) {
    use("job", self.job);
    use("rank", self.rank);
    use("size", self.size);
    use("host", self.host);
    use("pid", self.pid);
    use("reason", self.reason);
    use("failure", self.failure);
    use("failed_rank", self.failed_rank);
    use("epoch_ns", self.epoch_ns);
    use("steady_ns", self.steady_ns);
  }
};

/// The dump as lines of JSON: its head, each operation, each thread, each thread of the script, and
/// a line that ends it.
std::string format_dump(const Dump& dump);

/// Reads the output of one or several calls of format_dump(). A truncated last dump is returned in
/// part. Unknown lines and fields are skipped. Errors: kInvalidArgument naming a line that is no
/// JSON object or precedes the first head; kResourceExhausted if there are more dumps or lines than
/// a job can write.
Result<std::vector<Dump>> read_dumps(std::string_view text);

/// The last line of a dump.
inline constexpr std::string_view kDumpEnd = "{\"type\":\"end\"}\n";

/// An operation that failed at most this long before a dump belongs to the dump's failure.
inline constexpr std::int64_t kJustFailedNs = 1'000'000'000;

/// A dump in a line or two, for the log: pending operations, the latest failure, the last success.
std::string summarize_dump(const Dump& dump);

/// `"layer1/weight"`, or `group of ranks 0,1, call 7`.
std::string shown_name(const DumpOperation& operation);

/// `"layer1/weight" (allreduce, 4096 bytes), 1.2 s, waiting for other ranks`.
std::string describe_pending_operation(const DumpOperation& operation, std::int64_t now_ns);
/// `allreduce "layer1/weight", 0.3 s ago`, or "none yet".
std::string describe_last_finished(const Dump& dump);

/// `; rank 1 left the job and never submitted it`, of an operation that failed for that; else
/// empty.
std::string describe_leaver(const Dump& dump, const DumpOperation& operation);

/// True if the failure is that a rank left the job, which `failed_rank` names.
bool has_leaver(const Dump& dump) noexcept;
/// True if that rank gave no reason. Then no operation of its own was under way.
bool left_in_order(const Dump& dump) noexcept;
/// True if the operation failed as it waited for that rank.
bool waited_for_leaver(const Dump& dump, const DumpOperation& operation) noexcept;

/// Converts a time of the rank's steady clock to the wall clock.
std::int64_t wall_ns(const Dump& dump, std::int64_t steady_ns) noexcept;

/// True if the rank's last operations show that it is a member of the process set.
bool takes_part(const Dump& dump, std::int32_t set) noexcept;

/// An operation that a rank had begun when it wrote its dump. Owns neither.
struct Awaited {
  const Dump* dump = nullptr;
  const DumpOperation* operation = nullptr;
};

/// True if the rank has submitted the operation that another waits for. Named operations match by
/// name: pending, or ended after the wait began. Raw groups compare the number of the call.
bool has_submitted(const Dump& dump, const Awaited& awaited) noexcept;

/// True if the operation was pending, or ended only because the job failed.
bool was_under_way(const Dump& dump, const DumpOperation& operation) noexcept;

}  // namespace ronde
