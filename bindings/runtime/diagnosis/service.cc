#include "bindings/runtime/diagnosis/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "bindings/exit_log/exit_log.h"
#include "bindings/runtime/diagnosis/service_thread.h"
#include "bindings/runtime/diagnosis/stacks.h"
#include "core/base/log.h"
#include "core/base/thread_name.h"

namespace ronde::diagnosis {
namespace {

/// The delay of a dump after a failure: callers get their errors before this thread takes a core.
constexpr std::chrono::milliseconds kAfterFailure{10};
constexpr std::chrono::milliseconds kStackTime{500};
/// `ronde doctor` waits for 3 s.
constexpr std::chrono::seconds kScriptTime{1};
/// The interval of looking if a report of a stall has ended.
constexpr std::chrono::milliseconds kWhileReporting{100};
/// Requests within this time get the same answer.
constexpr std::chrono::milliseconds kSameAnswer{250};
/// Most dumps of a rank, so that one that fails or stalls again and again fills no disk.
constexpr int kMostFiles = 64;

std::int64_t wall_clock_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The address of this rank, as other ranks parse it.
DiagnosticsAddress diagnostics_address(const Dump& head) {
  static std::atomic<int> count{0};
  const DiagnosticsAddress address{.pid = head.pid,
                                   .number = count.fetch_add(1),
                                   .rank = head.rank,
                                   .size = head.size,
                                   .job = head.job};
  return DiagnosticsAddress::parse(address.text()).value_or(address);
}

DumpOperation operation_of(const OperationRecord& record) {
  return {.number = record.number,
          .name = record.name,
          .kind = std::string(record.kind),
          .set = record.set,
          .bytes = record.bytes,
          .call = record.call,
          .submitted_ns = record.at(OperationStage::kSubmitted),
          .agreed_ns = record.at(OperationStage::kAgreed),
          .started_ns = record.at(OperationStage::kStarted),
          .done_ns = record.at(OperationStage::kDone),
          .status = std::string(to_string(record.code))};
}

void append_all(std::vector<DumpOperation>& into, const std::vector<OperationRecord>& records) {
  for (const OperationRecord& record : records) into.push_back(operation_of(record));
}

/// Adds the kernel's view of the main thread, unless the dump has its stack.
void append_main_thread(Dump& dump) {
  const int main = ::getpid();
  for (const DumpThread& thread : dump.threads) {
    if (thread.tid == main) return;
  }
  dump.threads.push_back({.tid = main,
                          .name = thread_name(main, main),
                          .state = thread_state(main, main),
                          .frames = {}});
}

}  // namespace

std::string dump_path(const std::string& folder, const std::string& job, int rank) {
  const DiagnosticsAddress cleaned = {.job = job};
  const std::string text = cleaned.text();
  const std::string name = text.substr(text.rfind('/') + 1);
  return fmt::format("{}/ronde-dump.{}rank{}.jsonl", folder, name.empty() ? "" : name + ".", rank);
}

Service::Service(ServiceOptions options)
    : options_(std::move(options)),
      self_(diagnostics_address(options_.head)),
      listening_(
          options_.abort->listen([waker = options_.waker] { waker->wake(Reason::kFailure); })),
      signal_(options_.signal, *options_.waker),
      timeline_signal_(options_.timeline_signal, *options_.waker, Reason::kTimeline),
      script_(options_.script),
      watch_(options_.stall, now()),
      reporter_(options_.fail) {
  auto socket = open_diagnostics(self_.text());
  if (socket.ok()) {
    socket_ = std::move(socket).value();
  } else {
    log(LogLevel::kInfo, "{}", socket.status().message());
  }
  try {
    thread_ = start_without_signals([this] { run(); });
  } catch (const std::system_error& error) {  // the job does without
    log(LogLevel::kWarning, "no thread for dumps: {}", error.what());
  }
}

Service::~Service() {
  options_.abort->unlisten(listening_);
  stop_.store(true);
  script_.abort();
  options_.waker->wake();
  if (thread_.joinable()) thread_.join();
}

void Service::run() {
  name_this_thread("ronde-doctor");
  const auto answer = to_requests([this](std::string_view request) { return reply(request); });
  while (!stop_.load()) {
    const TimePoint look = reporter_.busy() ? now() + kWhileReporting : watch_.next_look();
    wait_for(*options_.waker, socket_ ? &*socket_ : nullptr, std::min(failure_due_, look));
    serve_reasons();
    watch_operations();
    if (socket_) socket_->turn(now(), answer);
  }
  serve_reasons();
}

void Service::serve_reasons() {
  const std::uint8_t wanted = options_.waker->take();
  const auto asked = [wanted](Reason reason) {
    return (wanted & static_cast<std::uint8_t>(reason)) != 0;
  };
  if (asked(Reason::kStall)) {
    watch_.negotiation_warned(now());
    tell_stall();
  }
  if (asked(Reason::kSignal)) tell("signal");
  if (asked(Reason::kTimeline)) options_.on_timeline();
  if (asked(Reason::kFailure)) failure_due_ = now() + kAfterFailure;
  if (failure_due_ == kForever || (now() < failure_due_ && !stop_.load())) return;
  failure_due_ = kForever;
  if (options_.abort->status().code() != Code::kAborted) tell("failure");
}

/// Writes one dump for operations that stall at about the same time, as it has all pending ones.
/// Without a folder the warnings suffice.
void Service::tell_stall() {
  const TimePoint time = now();
  if (options_.folder.empty()) return;
  if (stall_told_ != TimePoint() && time - stall_told_ < options_.stall.warning * 3 / 4) return;
  stall_told_ = time;
  tell("stall");
}

/// Reports operations that do not end though all ranks have agreed on them, or that nobody warns
/// of.
void Service::watch_operations() {
  if (now() < watch_.next_look() || reporter_.busy()) return;
  std::vector<LateOperation> late;
  for (const LateRecord& one : watch_.look(*options_.records, now())) {
    late.push_back({.operation = operation_of(one.record),
                    .others = one.others,
                    .late_ns = one.late_ns,
                    .over_limit = one.over_limit});
  }
  if (late.empty() || options_.abort->aborted()) return;
  reporter_.report(self_, outline("stall"), std::move(late));
  tell_stall();
}

Dump Service::outline(const char* reason) const {
  Dump dump = options_.head;
  dump.reason = reason;
  Status broken = options_.abort->status();
  if (broken.ok() && options_.left_behind) broken = options_.left_behind();
  dump.failure = with_exit(broken).message();
  if (broken.failed_rank()) dump.failed_rank = broken.failed_rank()->rank;
  dump.epoch_ns = wall_clock_ns();
  dump.steady_ns = to_ns(now());
  return dump;
}

Dump Service::full(const char* reason) {
  Dump dump = outline(reason);
  const TimePoint script_due = now() + kScriptTime;
  append_all(dump.operations, options_.records->all());
  std::vector<int> tids = threads_named(kThreadPrefix);
  std::erase(tids, ::gettid());
  for (const int tid : options_.callers->tids()) tids.insert(tids.begin(), tid);
  script_.begin();
  for (ThreadStack& stack : take_stacks(tids, now() + kStackTime)) {
    dump.threads.push_back({.tid = stack.tid,
                            .name = std::move(stack.name),
                            .state = std::move(stack.state),
                            .frames = std::move(stack.frames)});
  }
  script_.finish(dump, script_due);
  if (!dump.script_error.empty()) append_main_thread(dump);
  return dump;
}

void Service::tell(const char* reason) {
  if (options_.folder.empty()) {
    Dump dump = outline(reason);
    append_all(dump.operations, options_.records->pending());
    append_all(dump.operations, options_.records->failed(dump.steady_ns - kJustFailedNs));
    const OperationRecord last = options_.records->last_finished();
    if (last.number != 0) dump.operations.push_back(operation_of(last));
    log(LogLevel::kWarning, "{}", summarize_dump(dump));
  } else {
    write_file(full(reason));
  }
}

void Service::write_file(const Dump& dump) {
  if (++files_written_ > kMostFiles) return;
  const std::string path = dump_path(options_.folder, dump.job, dump.rank);
  const FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string text = format_dump(dump);
  if (!file.valid() ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    log(LogLevel::kWarning, "{}; {}", errno_status("cannot write the dump " + path).message(),
        summarize_dump(dump));
    return;
  }
  log(LogLevel::kWarning, "{}; dump in {}", summarize_dump(dump), path);
}

ReplySocket::Reply Service::reply(std::string_view request) {
  if (request == kProbeRequest) {
    return std::make_shared<const std::string>(format_dump(outline("probe")));
  }
  if (!last_reply_ || now() - replied_ > kSameAnswer) {
    last_reply_ = std::make_shared<const std::string>(format_dump(full("doctor")));
    replied_ = now();
  }
  return last_reply_;
}

}  // namespace ronde::diagnosis
