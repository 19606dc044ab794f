// Traces of a small elastic job, for tests. Worker 2 of three is killed in epoch 1; worker 4 joins
// in epoch 3. Times are in milliseconds on one clock.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/timeline/scratch.h"
#include "timeline/recording/trace_head.h"

namespace ronde::test {

/// A trace whose events lines are added one by one.
class TraceText {
 public:
  TraceText(int row, RecordingInfo info, long start_ms) : row_(row), start_ms_(start_ms) {
    info.boot_id = "b1";
    info.steady_start_ns = start_ms * 1'000'000;
    text_ = "[\n" + format_header(info);
  }
  TraceText& track(int tid, const std::string& name) {
    return line("M", tid,
                fmt::format(",\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}", name));
  }
  TraceText& begin(int tid, long ms, const std::string& name, const std::string& args = "") {
    return timed("B", tid, ms, name, args);
  }
  TraceText& end(int tid, long ms) { return timed("E", tid, ms, "", ""); }
  TraceText& instant(int tid, long ms, const std::string& name, const std::string& args = "") {
    return timed("i", tid, ms, name, args);
  }
  TraceText& counter(long ms, const std::string& name, int value) {
    return timed("C", 0, ms, name, fmt::format("\"value\":{}", value));
  }
  [[nodiscard]] std::string text() const { return text_ + "\n]\n"; }

 private:
  TraceText& timed(const char* phase, int tid, long ms, const std::string& name,
                   const std::string& args) {
    return line(phase, tid,
                fmt::format(",\"ts\":{},\"name\":\"{}\",\"args\":{{{}}}", (ms - start_ms_) * 1000,
                            name, args));
  }
  TraceText& line(const char* phase, int tid, const std::string& rest) {
    text_ += fmt::format(",\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{}{}}}", phase, row_, tid, rest);
    return *this;
  }
  const int row_;
  const long start_ms_;
  std::string text_;
};

/// A worker's trace of one epoch. Each bundle is an allreduce of 1 ms.
inline TraceText elastic_worker(int worker, int epoch, int rank, int size, long start_ms) {
  RecordingInfo info;
  info.rank = rank;
  info.size = size;
  info.worker = worker;
  info.epoch = epoch;
  info.job = fmt::format("ab12-{}", epoch);
  info.host = "here";
  TraceText text(worker, info, start_ms);
  text.track(1, "allreduce.w").track(2, "recovery");
  for (int bundle = 1; bundle <= 3; ++bundle) {
    const long at = start_ms + 10L * bundle;
    text.begin(1, at, "NEGOTIATE_ALLREDUCE").end(1, at + 1);
    text.begin(1, at + 1, "ALLREDUCE",
               fmt::format("\"bundle\":{},\"bytes\":8,\"tensors\":1", bundle));
    text.end(1, at + 2);
    text.counter(at + 3, "step", bundle);
    if (bundle < 3) text.counter(at + 4, "committed step", bundle);
  }
  return text;
}

/// Adds the transition from `left` to `ended`, in five parts of the same length as seen by all.
inline void add_transition(TraceText& text, const std::string& name, long left, long step) {
  text.begin(2, left, name);
  int part = 0;
  for (const char* title :
       {"leave the epoch", "wait for the next epoch", "connect", "first operation"}) {
    text.begin(2, left + step * part, title).end(2, left + step * (part + 1));
    ++part;
  }
  text.end(2, left + 4 * step);
}

inline std::string launcher_trace() {
  RecordingInfo info;
  info.launcher = true;
  info.rank = -1;
  info.job = "ab12";
  TraceText text(kJobRow, info, 0);
  const auto args = [](int epoch, const char* workers, const char* why) {
    return fmt::format("\"epoch\":{},\"workers\":\"{}\",\"why\":\"{}\"", epoch, workers, why);
  };
  const auto change = [](int worker, int epoch, const char* event, const char* why) {
    return fmt::format("\"worker\":{},\"epoch\":{},\"event\":\"{}\",\"why\":\"{}\"", worker, epoch,
                       event, why);
  };
  text.instant(2, 90, "worker 1 started", change(1, 0, "started", "pid 7"));
  text.begin(1, 95, "epoch 1", args(1, "1,2,3", "")).end(1, 140);
  text.begin(1, 140, "RECOVERY");
  text.instant(2, 138, "worker 2 died", change(2, 1, "died", "was killed by signal 9"));
  text.end(1, 150).begin(1, 150, "epoch 2", args(2, "1,3", "worker 2 was killed")).end(1, 240);
  text.begin(1, 240, "CHANGE OF WORKERS").end(1, 245);
  text.begin(1, 245, "epoch 3", args(3, "1,3,4", ""));
  text.instant(2, 245, "worker 4 joined", change(4, 3, "joined", ""));
  return text.text();
}

/// The traces' paths; the last one is the launcher's.
inline std::vector<std::string> write_elastic_job(const ScratchFolder& scratch) {
  std::vector<std::string> paths;
  const auto write = [&](const TraceText& text, int worker, int epoch) {
    paths.push_back(
        scratch.write(fmt::format("t.worker{}.epoch{}.json", worker, epoch), text.text()));
  };
  for (const int worker : {1, 2, 3}) {
    TraceText text = elastic_worker(worker, 1, worker - 1, 3, 100);
    if (worker == 1)
      text.begin(1, 139, "NEGOTIATE_ALLREDUCE").instant(0, 141, "end of the epoch").end(1, 141);
    write(text, worker, 1);
  }
  for (const int worker : {1, 3}) {
    TraceText text = elastic_worker(worker, 2, worker / 2, 2, 200);
    add_transition(text, "RECOVERY", worker == 1 ? 140 : 142, 5);
    write(text, worker, 2);
  }
  for (const int worker : {1, 3, 4}) {
    TraceText text = elastic_worker(worker, 3, worker == 4 ? 2 : worker / 2, 3, 300);
    if (worker != 4) add_transition(text, "CHANGE OF WORKERS", 240, 2);
    write(text, worker, 3);
  }
  paths.push_back(scratch.write("t.epochs.json", launcher_trace()));
  return paths;
}

}  // namespace ronde::test
