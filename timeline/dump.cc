#include "timeline/dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace ronde {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::size_t kMostDumps = 4096;
constexpr std::size_t kMostLines = std::size_t{1} << 22;
constexpr std::size_t kShownPending = 8;
constexpr std::string_view kLeft = " has left the job";  // of the errors of a rank's leave

void append_line(std::string& out, const Json& line) {
  out += line.dump(-1, ' ', false, Json::error_handler_t::replace);
  out += '\n';
}

Json head_of(const Dump& dump) {
  return {{"type", "dump"},
          {"version", kVersion},
          {"job", dump.job},
          {"rank", dump.rank},
          {"size", dump.size},
          {"host", dump.host},
          {"pid", dump.pid},
          {"reason", dump.reason},
          {"failure", dump.failure},
          {"failed_rank", dump.failed_rank},
          {"epoch_ns", dump.epoch_ns},
          {"steady_ns", dump.steady_ns}};
}

Json line_of(const DumpOperation& operation) {
  return {{"type", "operation"},
          {"number", operation.number},
          {"name", operation.name},
          {"kind", operation.kind},
          {"set", operation.set},
          {"bytes", operation.bytes},
          {"call", operation.call},
          {"submitted_ns", operation.submitted_ns},
          {"agreed_ns", operation.agreed_ns},
          {"started_ns", operation.started_ns},
          {"done_ns", operation.done_ns},
          {"status", operation.done() ? operation.status : "pending"}};
}

Json line_of(const DumpThread& thread) {
  return {{"type", "thread"},
          {"tid", thread.tid},
          {"name", thread.name},
          {"state", thread.state},
          {"frames", thread.frames}};
}

Json line_of(const DumpScriptThread& thread) {
  return {{"type", "script"},
          {"tid", thread.tid},
          {"name", thread.name},
          {"line", thread.line},
          {"frames", thread.frames}};
}

template <typename Number>
Number number_in(const Json& line, const char* field, Number otherwise = {}) {
  const auto found = line.find(field);
  return found != line.end() && found->is_number_integer() ? found->get<Number>() : otherwise;
}

std::string text_in(const Json& line, const char* field) {
  const auto found = line.find(field);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Dump read_head(const Json& line) {
  Dump dump;
  dump.job = text_in(line, "job");
  dump.rank = number_in<int>(line, "rank");
  dump.size = number_in<int>(line, "size");
  dump.host = text_in(line, "host");
  dump.pid = number_in<int>(line, "pid");
  dump.reason = text_in(line, "reason");
  dump.failure = text_in(line, "failure");
  dump.failed_rank = number_in<int>(line, "failed_rank", -1);
  dump.epoch_ns = number_in<std::int64_t>(line, "epoch_ns");
  dump.steady_ns = number_in<std::int64_t>(line, "steady_ns");
  return dump;
}

DumpOperation read_operation(const Json& line) {
  DumpOperation operation;
  operation.number = number_in<std::uint64_t>(line, "number");
  operation.name = text_in(line, "name");
  operation.kind = text_in(line, "kind");
  operation.set = number_in<std::int32_t>(line, "set");
  operation.bytes = number_in<std::uint64_t>(line, "bytes");
  operation.call = number_in<std::uint64_t>(line, "call");
  operation.submitted_ns = number_in<std::int64_t>(line, "submitted_ns");
  operation.agreed_ns = number_in<std::int64_t>(line, "agreed_ns");
  operation.started_ns = number_in<std::int64_t>(line, "started_ns");
  operation.done_ns = number_in<std::int64_t>(line, "done_ns");
  operation.status = text_in(line, "status");
  return operation;
}

std::vector<std::string> frames_in(const Json& line) {
  std::vector<std::string> texts;
  const auto frames = line.find("frames");
  if (frames == line.end() || !frames->is_array()) return texts;
  for (const Json& frame : *frames) {
    if (frame.is_string()) texts.push_back(frame.get<std::string>());
  }
  return texts;
}

DumpThread read_thread(const Json& line) {
  return {.tid = number_in<int>(line, "tid"),
          .name = text_in(line, "name"),
          .state = text_in(line, "state"),
          .frames = frames_in(line)};
}

/// Reads one thread of the script, or the reason why there is none.
void read_script(const Json& line, Dump& into) {
  std::string error = text_in(line, "error");
  if (!error.empty()) {
    into.script_error = std::move(error);
    return;
  }
  into.script.push_back({.tid = number_in<int>(line, "tid"),
                         .name = text_in(line, "name"),
                         .line = text_in(line, "line"),
                         .frames = frames_in(line)});
}

Status malformed(std::size_t number, const char* what) {
  return {Code::kInvalidArgument, fmt::format("line {} of the dump {}", number, what)};
}

Status take_line(const Json& line, std::size_t number, std::vector<Dump>& into) {
  const std::string type = text_in(line, "type");
  if (type == "dump") {
    if (into.size() == kMostDumps) {
      return {Code::kResourceExhausted, fmt::format("more than {} dumps", kMostDumps)};
    }
    into.push_back(read_head(line));
    return {};
  }
  if (into.empty()) return malformed(number, "comes before a dump's head");
  if (type == "operation") into.back().operations.push_back(read_operation(line));
  if (type == "thread") into.back().threads.push_back(read_thread(line));
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
  return fmt::format("{}", fmt::join(operations, "; "));
}

const char* phase_of(const DumpOperation& operation) {
  if (operation.kind == "send" || operation.kind == "recv") return "waiting for its peer";
  if (operation.agreed_ns == 0) return "waiting for other ranks";
  return operation.started_ns == 0 ? "agreed, waiting for its turn" : "moving data";
}

}  // namespace

std::string format_dump(const Dump& dump) {
  std::string out;
  append_line(out, head_of(dump));
  for (const DumpOperation& operation : dump.operations) append_line(out, line_of(operation));
  for (const DumpThread& thread : dump.threads) append_line(out, line_of(thread));
  for (const DumpScriptThread& thread : dump.script) append_line(out, line_of(thread));
  if (!dump.script_error.empty()) {
    append_line(out, {{"type", "script"}, {"error", dump.script_error}});
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
    const Json line = Json::parse(text.substr(0, end), nullptr, false);
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
