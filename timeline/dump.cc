#include "timeline/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/join_text.h"
#include "core/base/json.h"

namespace ronde {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kMostDumps = 4096;
constexpr std::size_t kMostLines = std::size_t{1} << 22;
constexpr std::size_t kShownPending = 8;
constexpr std::string_view kLeft = " has left the job";  // of the errors of a rank's leave

/// One line: `head`, then the fields of `from`.
template <typename From>
std::string line_of(Json head, const From& from) {
  From::fields(from, [&](const char* name, const auto& value) { head[name] = value; });
  return print_json(head) + "\n";
}

std::string line_of(const DumpOperation& operation) {
  DumpOperation written = operation;
  if (!operation.done()) written.status = "pending";
  return line_of({{"type", "operation"}}, written);
}

template <typename To>
To read_line(const Json& line) {
  To to;
  To::fields(to, [&](const char* name, auto& value) { (void)read_member(line, name, value); });
  return to;
}

/// Reads one thread of the script, or the reason why there is none.
void read_script(const Json& line, Dump& into) {
  std::string error;
  (void)read_member(line, "error", error);
  if (error.empty()) {
    into.script.push_back(read_line<DumpScriptThread>(line));
  } else {
    into.script_error = std::move(error);
  }
}

Status malformed(std::size_t number, const char* what) {
  return {Code::kInvalidArgument, fmt::format("line {} of the dump {}", number, what)};
}

Status take_line(const Json& line, std::size_t number, std::vector<Dump>& into) {
  std::string type;
  (void)read_member(line, "type", type);
  if (type == "dump") {
    if (into.size() == kMostDumps) {
      return {Code::kResourceExhausted, fmt::format("more than {} dumps", kMostDumps)};
    }
    into.push_back(read_line<Dump>(line));
    return {};
  }
  if (into.empty()) return malformed(number, "comes before a dump's head");
  if (type == "operation") into.back().operations.push_back(read_line<DumpOperation>(line));
  if (type == "thread") into.back().threads.push_back(read_line<DumpThread>(line));
  if (type == "script") read_script(line, into.back());
  return {};
}

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

/// The dump's reason. Callers receive their errors before the dump is written.
bool failed_just_now(const DumpOperation& operation, std::int64_t now_ns) {
  return operation.done() && operation.status != "ok" && now_ns - operation.done_ns < kJustFailedNs;
}

/// The operations that fit into one line.
std::string first_of(std::vector<std::string> operations) {
  const std::size_t count = operations.size();
  if (count > kShownPending) {
    operations.resize(kShownPending);
    operations.push_back(fmt::format("and {} more", count - kShownPending));
  }
  return join_text(operations, "; ");
}

const char* phase_of(const DumpOperation& operation) {
  if (operation.kind == "send" || operation.kind == "recv") return "waiting for its peer";
  if (operation.agreed_ns == 0) return "waiting for other ranks";
  return operation.started_ns == 0 ? "agreed, waiting for its turn" : "moving data";
}

}  // namespace

std::string format_dump(const Dump& dump) {
  std::string out = line_of({{"type", "dump"}, {"version", kVersion}}, dump);
  for (const DumpOperation& operation : dump.operations) out += line_of(operation);
  for (const DumpThread& thread : dump.threads) out += line_of({{"type", "thread"}}, thread);
  for (const DumpScriptThread& thread : dump.script) out += line_of({{"type", "script"}}, thread);
  if (!dump.script_error.empty()) {
    out += print_json({{"type", "script"}, {"error", dump.script_error}}) + "\n";
  }
  return out.append(kDumpEnd);
}

Result<std::vector<Dump>> read_dumps(std::string_view text) {
  std::vector<Dump> dumps;
  for (std::size_t number = 1; !text.empty(); ++number) {
    if (number > kMostLines) {
      return Status(Code::kResourceExhausted, fmt::format("more than {} lines", kMostLines));
    }
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos && !dumps.empty()) break;  // cut off
    const Json line = parse_json(text.substr(0, end));
    if (!line.is_object()) return malformed(number, "is not a JSON object");
    RONDE_RETURN_IF_ERROR(take_line(line, number, dumps));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return dumps;
}

std::string shown_name(const DumpOperation& operation) {
  if (operation.call != 0) return fmt::format("{}, call {}", operation.name, operation.call);
  return operation.name.empty() ? "without a name" : fmt::format("\"{}\"", operation.name);
}

std::string describe_pending_operation(const DumpOperation& operation, std::int64_t now_ns) {
  return fmt::format("{} ({}, {} bytes), {:.1f} s, {}", shown_name(operation), operation.kind,
                     operation.bytes, seconds(now_ns - operation.submitted_ns),
                     phase_of(operation));
}

std::string describe_last_finished(const Dump& dump) {
  const DumpOperation* last = nullptr;
  for (const DumpOperation& operation : dump.operations) {
    if (!operation.done() || operation.status != "ok") continue;
    if (last == nullptr || operation.done_ns > last->done_ns) last = &operation;
  }
  if (last == nullptr) return "none yet";
  return fmt::format("{} {}, {:.1f} s ago", last->kind, shown_name(*last),
                     seconds(dump.steady_ns - last->done_ns));
}

std::string describe_leaver(const Dump& dump, const DumpOperation& operation) {
  if (!waited_for_leaver(dump, operation)) return {};
  return fmt::format("; rank {} left the job {}", dump.failed_rank,
                     left_in_order(dump) ? "and never submitted it" : "before it ran");
}

std::string summarize_dump(const Dump& dump) {
  std::vector<std::string> pending;
  std::vector<std::string> failed;
  for (const DumpOperation& operation : dump.operations) {
    if (!operation.done()) {
      pending.push_back(describe_pending_operation(operation, dump.steady_ns));
    } else if (failed_just_now(operation, dump.steady_ns)) {
      failed.push_back(describe_pending_operation(operation, operation.done_ns) +
                       describe_leaver(dump, operation));
    }
  }
  return fmt::format("rank {} on {}: pending: {}{}; last finished: {}", dump.rank, dump.host,
                     pending.empty() ? "nothing" : first_of(pending),
                     failed.empty() ? "" : "; just failed: " + first_of(failed),
                     describe_last_finished(dump));
}

std::int64_t wall_ns(const Dump& dump, std::int64_t steady_ns) noexcept {
  return dump.epoch_ns - (dump.steady_ns - steady_ns);
}

bool takes_part(const Dump& dump, std::int32_t set) noexcept {
  return set == 0 || std::any_of(dump.operations.begin(), dump.operations.end(),
                                 [set](const DumpOperation& own) { return own.set == set; });
}

bool has_submitted(const Dump& dump, const Awaited& awaited) noexcept {
  const DumpOperation& wanted = *awaited.operation;
  const std::int64_t since = wall_ns(*awaited.dump, wanted.submitted_ns);
  return std::any_of(dump.operations.begin(), dump.operations.end(), [&](const auto& own) {
    if (own.set != wanted.set) return false;
    if (wanted.call != 0) return own.call >= wanted.call;
    return own.name == wanted.name &&
           (was_under_way(dump, own) || wall_ns(dump, own.done_ns) > since);
  });
}

bool was_under_way(const Dump& dump, const DumpOperation& operation) noexcept {
  return !operation.done() || (!dump.failure.empty() && operation.status != "ok");
}

bool has_leaver(const Dump& dump) noexcept {
  return dump.failed_rank >= 0 && dump.failure.find(kLeft) != std::string::npos;
}

bool left_in_order(const Dump& dump) noexcept {
  const std::size_t at = dump.failure.find(kLeft);
  return at != std::string::npos && !dump.failure.substr(at + kLeft.size()).starts_with(':');
}

bool waited_for_leaver(const Dump& dump, const DumpOperation& operation) noexcept {
  return has_leaver(dump) && operation.agreed_ns == 0 && operation.status == "rank failure";
}

}  // namespace ronde
