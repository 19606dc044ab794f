#include "tests/timeline/report/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/ports/event_sink.h"
#include "timeline/recording/machine_probe.h"
#include "timeline/recording/trace_format.h"
#include "timeline/report/job_trace.h"

namespace ronde::report {
namespace {

constexpr std::int64_t kStartNs = 1'000'000'000;

RecordingInfo info_of(const Plan& plan, int rank) {
  RecordingInfo info = RankWriter::info_of(rank, plan.ranks);
  info.cores = plan.cores;
  info.job = plan.job;
  return info;
}

/// A job under way.
class Job {
 public:
  explicit Job(const Plan& plan)
      : plan_(plan), random_(plan.seed), now_(ranks(), 0), no_core_ms_(ranks(), 0) {
    for (int rank = 0; rank < plan.ranks; ++rank) writers_.emplace_back(info_of(plan, rank));
  }

  void run() {
    for (int step = 0; step < plan_.steps; ++step) run_step(step);
  }

  [[nodiscard]] std::vector<std::string> finish() const {
    std::vector<std::string> texts;
    for (const RankWriter& writer : writers_) texts.push_back(writer.finish());
    return texts;
  }

 private:
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(plan_.ranks); }

  /// Times at which each rank submits each bundle, and ends computing (the last).
  std::vector<std::vector<double>> submissions(int step) {
    std::normal_distribution<double> noise(1, plan_.jitter);
    std::vector<std::vector<double>> times(ranks());
    for (std::size_t r = 0; r < ranks(); ++r) {
      const int rank = static_cast<int>(r);
      const double compute = plan_.compute_us * std::max(0.1, noise(random_));
      double at = now_[r] + compute / 2 + plan_.early_us(rank, step);
      const double each = (compute / 2 + plan_.late_us(rank, step)) / plan_.bundles;
      for (int bundle = 0; bundle < plan_.bundles; ++bundle) times[r].push_back(at += each);
    }
    return times;
  }

  void run_step(int step) {
    const auto submitted = submissions(step);
    std::vector<double> blocked(ranks(), 0);  // by earlier bundles that were waited for
    double ended = 0;
    for (int b = 0; b < plan_.bundles; ++b) {
      std::vector<double> submit;
      for (std::size_t r = 0; r < ranks(); ++r) {
        submit.push_back(submitted[r][static_cast<std::size_t>(b)] + blocked[r]);
      }
      const double ready = *std::max_element(submit.begin(), submit.end());
      const double agreed = ready + plan_.agree_us;
      const double start = std::max(agreed, ended);
      ended = start + plan_.wire_us + plan_.pack_us;
      write_bundle(b, submit, agreed, start, ended);
      for (std::size_t r = 0; r < ranks() && plan_.one_by_one; ++r) {
        writers_[r].span(submit[r], ended, kWaitTrack, "WAIT");
        blocked[r] += ended - submit[r];
      }
    }
    for (std::size_t r = 0; r < ranks(); ++r) {
      if (plan_.load_us > 0) {
        writers_[r].span(now_[r], now_[r] + plan_.load_us, kMarksTrack, "load");
      }
      if (!plan_.one_by_one) writers_[r].span(submitted[r].back(), ended, kWaitTrack, "WAIT");
      if (plan_.step_marks) mark(r, ended, step);
      now_[r] = ended;
    }
  }

  void mark(std::size_t rank, double at, int step) {
    if (const double us = plan_.no_core_us(static_cast<int>(rank), step); us >= 0) {
      no_core_ms_[rank] += us / 1000;
      writers_[rank].count(at, kCoreWaitCounter, no_core_ms_[rank]);
    }
    if (plan_.cpu_cores >= 0) {
      writers_[rank].count(at, kCpuCounter, plan_.cpu_cores * at / 1000);
    }
    writers_[rank].count(at, kStepCounter, step + 1);
  }

  void write_bundle(int bundle, const std::vector<double>& submit, double agreed, double start,
                    double end) {
    ++bundles_;
    for (std::size_t r = 0; r < ranks(); ++r) {
      write_tensors(writers_[r], bundle, submit[r], agreed, start, end);
    }
  }

  void write_tensors(RankWriter& writer, int bundle, double submit, double agreed, double start,
                     double end) const {
    Event facts;
    facts.collective = Collective::kAllreduce;
    facts.bytes = plan_.bundle_bytes / static_cast<std::uint64_t>(plan_.tensors);
    Event run;
    run.collective = Collective::kAllreduce;
    run.bytes = plan_.bundle_bytes;
    run.tensors = plan_.tensors;
    run.bundle = bundles_;
    run.algorithm = "ring";
    run.backend = "tcp";
    Event ending;
    ending.pack_ns = static_cast<std::int64_t>(plan_.pack_us * 1000);
    std::vector<std::string> names;
    for (int t = 0; t < plan_.tensors; ++t) {
      names.push_back(fmt::format("allreduce.layer{}.{}", bundle, t));
      writer.add(EventKind::kBegin, submit - plan_.tensors + 1 + t, names.back(),
                 "NEGOTIATE_ALLREDUCE", facts);
      writer.add(EventKind::kEnd, agreed, names.back());
    }
    for (const auto& name : names) writer.add(EventKind::kBegin, start, name, "ALLREDUCE", run);
    for (const auto& name : names) writer.add(EventKind::kEnd, end, name, {}, ending);
  }

  const Plan& plan_;
  std::mt19937 random_;
  std::vector<double> now_;
  std::vector<double> no_core_ms_;
  std::vector<RankWriter> writers_;
  std::uint64_t bundles_ = 0;
};

}  // namespace

RecordingInfo RankWriter::info_of(int rank, int size) {
  RecordingInfo info;
  info.rank = rank;
  info.size = size;
  info.host = "node1";
  info.boot_id = "boot";
  info.steady_start_ns =
      kStartNs + std::int64_t{rank} * 1'000'000;  // ranks start one after another
  info.epoch_start_us = 5'000'000;
  info.job = "job";
  return info;
}

void RankWriter::add(EventKind kind, double at_us, std::string_view track, std::string_view name,
                     const Event& facts) {
  Event event = facts;
  event.kind = kind;
  event.at_ns = kStartNs + 10'000'000 + static_cast<std::int64_t>(at_us * 1000);
  event.track = track;
  event.name = name;
  formatter_.append(text_, event);
}

void RankWriter::span(double from_us, double to_us, std::string_view track, std::string_view name) {
  add(EventKind::kBegin, from_us, track, name);
  add(EventKind::kEnd, to_us, track);
}

void RankWriter::count(double at_us, std::string_view name, double value) {
  Event facts;
  facts.value = value;
  add(EventKind::kCounter, at_us, {}, name, facts);
}

std::vector<std::string> traces_of(const Plan& plan) {
  Job job(plan);
  job.run();
  return job.finish();
}

std::vector<std::string> write_traces(const ScratchFolder& scratch, const Plan& plan) {
  return write_texts(scratch, traces_of(plan));
}

std::vector<std::string> write_texts(const ScratchFolder& scratch,
                                     const std::vector<std::string>& texts) {
  std::vector<std::string> paths;
  paths.reserve(texts.size());
  for (const std::string& text : texts) {
    paths.push_back(scratch.write(fmt::format("t.rank{}.json", paths.size()), text));
  }
  return paths;
}

Read read_plan(const Plan& plan) {
  const ScratchFolder scratch;
  return read_traces(write_traces(scratch, plan));
}

Read read_traces(const std::vector<std::string>& paths) {
  auto job = load_traces(paths);
  if (!job.ok()) throw std::runtime_error(job.status().to_string());
  Read read{std::move(*job), {}, {}};
  read.analysis = analyze(read.job);
  read.findings = find_causes(read.job, read.analysis);
  return read;
}

const Finding* finding_of(const Read& read, Cause cause) {
  const auto found = std::find_if(read.findings.begin(), read.findings.end(),
                                  [&](const Finding& finding) { return finding.cause == cause; });
  return found == read.findings.end() ? nullptr : &*found;
}

}  // namespace ronde::report
