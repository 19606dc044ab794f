#include "timeline/report/pipeline.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/ports/event_sink.h"
#include "tests/timeline/report/synthetic.h"
#include "timeline/report/reports.h"
#include "timeline/report/summary.h"

namespace ronde::report {
namespace {

constexpr double kForwardUs = 1000;
constexpr double kUpdateUs = 10;

/// Pipelines side by side that follow 1F1B. A stage computes twice as long backward as forward.
struct PipelinePlan {
  int stages = 4;
  int microbatches = 8;
  int pipelines = 1;
  int steps = 20;
  bool step_marks = true;
  /// Added to each forward pass of a stage.
  std::function<double(int stage)> more_us = [](int) { return 0.0; };
  /// The rank of a stage.
  std::function<int(int pipeline, int stage)> rank_of = [](int pipeline, int stage) {
    return pipeline * 4 + stage;
  };
  [[nodiscard]] int ranks() const { return stages * pipelines; }
};

/// The passes of a stage in the order of 1F1B: microbatches, backward if negative (less one).
std::vector<int> passes_of(int stage, const PipelinePlan& plan) {
  std::vector<int> passes;
  passes.reserve(2 * static_cast<std::size_t>(plan.microbatches));
  const int ahead = std::min(plan.microbatches, plan.stages - 1 - stage);
  for (int i = 0; i < ahead; ++i) passes.push_back(i);
  for (int i = ahead; i < plan.microbatches; ++i) {
    passes.push_back(i);
    passes.push_back(-1 - (i - ahead));
  }
  for (int i = plan.microbatches - ahead; i < plan.microbatches; ++i) passes.push_back(-1 - i);
  return passes;
}

/// Traces of one pipeline after the other.
class PipelineTraces {
 public:
  explicit PipelineTraces(const PipelinePlan& plan) : plan_(plan) {
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      writers_.emplace_back(RankWriter::info_of(rank, plan.ranks()));
    }
    for (int pipeline = 0; pipeline < plan.pipelines; ++pipeline) run(pipeline);
  }

  [[nodiscard]] Read read() const {
    const ScratchFolder scratch;
    std::vector<std::string> texts;
    for (const RankWriter& writer : writers_) texts.push_back(writer.finish());
    return read_traces(write_texts(scratch, texts));
  }

 private:
  void run(int pipeline) {
    now_.assign(static_cast<std::size_t>(plan_.stages), 0);
    for (int step = 0; step < plan_.steps; ++step) run_step(pipeline, step);
  }

  void run_step(int pipeline, int step) {
    std::vector<std::vector<int>> left;           // passes of each stage
    std::map<std::pair<int, int>, double> ready;  // by stage and pass
    left.reserve(now_.size());
    for (int stage = 0; stage < plan_.stages; ++stage) left.push_back(passes_of(stage, plan_));
    for (int i = 0; i < plan_.microbatches; ++i) ready[{0, i}] = 0;
    for (int i = 1; i <= plan_.microbatches; ++i) ready[{plan_.stages - 1, -i}] = 0;
    for (bool any = true; std::exchange(any, false);) {
      for (int stage = 0; stage < plan_.stages; ++stage) {
        auto& passes = left[static_cast<std::size_t>(stage)];
        if (passes.empty() || !ready.contains({stage, passes.front()})) continue;
        run_pass(pipeline, stage, passes.front(), ready);
        passes.erase(passes.begin());
        any = true;
      }
    }
    for (int stage = 0; stage < plan_.stages; ++stage) {
      double& now = now_[static_cast<std::size_t>(stage)];
      now += kUpdateUs;
      if (plan_.step_marks) writer_of(pipeline, stage).count(now, kStepCounter, step + 1);
    }
  }

  void run_pass(int pipeline, int stage, int pass, std::map<std::pair<int, int>, double>& ready) {
    const bool forward = pass >= 0;
    double& now = now_[static_cast<std::size_t>(stage)];
    const int from = forward ? stage - 1 : stage + 1;
    if (from >= 0 && from < plan_.stages) receive(pipeline, stage, from, ready[{stage, pass}]);
    now += forward ? kForwardUs + plan_.more_us(stage) : 2 * kForwardUs;
    const int to = forward ? stage + 1 : stage - 1;
    if (to < 0 || to >= plan_.stages) return;
    const std::string track = fmt::format("{}{}", kSendTrack, plan_.rank_of(pipeline, to));
    writer_of(pipeline, stage).span(now, now + 1, track, "SEND");
    ready[{to, pass}] = now;
  }

  void receive(int pipeline, int stage, int from, double ready_us) {
    double& now = now_[static_cast<std::size_t>(stage)];
    const double end = std::max(now, ready_us);
    RankWriter& writer = writer_of(pipeline, stage);
    writer.span(now, end, fmt::format("{}{}", kRecvTrack, plan_.rank_of(pipeline, from)), "RECV");
    if (end > now) writer.span(now, end, kWaitTrack, kMessageWaitSpan);
    now = end;
  }

  RankWriter& writer_of(int pipeline, int stage) {
    return writers_[static_cast<std::size_t>(plan_.rank_of(pipeline, stage))];
  }

  const PipelinePlan& plan_;
  std::vector<RankWriter> writers_;
  std::vector<double> now_;
};

Pipeline pipeline_of(const Read& read) {
  auto found = find_pipeline(read.job, read.analysis);
  REQUIRE(found.has_value());
  return *found;
}

std::vector<std::vector<std::size_t>> ranks_of(const Pipeline& pipeline) {
  std::vector<std::vector<std::size_t>> ranks;
  for (const Stage& stage : pipeline.stages) ranks.push_back(stage.ranks);
  return ranks;
}

}  // namespace

TEST_CASE("pipeline: equal stages have the bubble of 1F1B, and none is named") {
  for (const int microbatches : {4, 8, 32}) {
    CAPTURE(microbatches);
    const PipelinePlan plan{.microbatches = microbatches};
    const Read read = PipelineTraces(plan).read();
    const Pipeline pipeline = pipeline_of(read);
    CHECK(ranks_of(pipeline) == std::vector<std::vector<std::size_t>>{{0}, {1}, {2}, {3}});
    const double ideal = 3.0 / (microbatches + 3);
    CHECK(pipeline.bubble() == doctest::Approx(ideal).epsilon(0.02));
    CHECK(pipeline.schedule_share() == doctest::Approx(ideal).epsilon(0.02));
    CHECK_FALSE(pipeline.names_slowest());
    const Finding* const finding = finding_of(read, Cause::kPipeline);
    REQUIRE(finding != nullptr);
    CHECK(finding->rank == -1);
    CHECK(finding->text.find("No stage is much slower") != std::string::npos);
  }
}

TEST_CASE("pipeline: a stage that computes longer is named, with its part of the bubble") {
  for (const int slow : {0, 1, 2, 3}) {
    CAPTURE(slow);
    PipelinePlan plan;
    plan.more_us = [slow](int stage) { return stage == slow ? kForwardUs : 0.0; };
    const Read read = PipelineTraces(plan).read();
    const Pipeline pipeline = pipeline_of(read);
    CHECK(pipeline.slowest == static_cast<std::size_t>(slow));
    CHECK(pipeline.names_slowest());
    const double step_us = pipeline.step_ns / 1000;
    // 8 microbatches of 4 ms on that stage, and of 3 ms on the others.
    CHECK(pipeline.uneven_share() == doctest::Approx((32e3 - 26e3) / step_us).epsilon(0.02));
    CHECK(pipeline.bubble() == doctest::Approx(1 - 26e3 / step_us).epsilon(0.02));
    const Finding* const finding = finding_of(read, Cause::kPipeline);
    REQUIRE(finding != nullptr);
    CHECK(finding->rank == slow);
    const std::string made_by =
        fmt::format("made by stage {} (rank {}): it works 32.0 ms", slow, slow);
    CHECK(finding->text.find(made_by) != std::string::npos);
    const std::string text = text_report(read.job, read.analysis, read.findings);
    CHECK(text.find("Pipeline of 4 stages") != std::string::npos);
    CHECK(report_data(read.job, read.analysis, read.findings)["pipeline"]["slowest"] == slow);
  }
}

TEST_CASE(
    "pipeline: stages are found in whichever ranks they are, also of pipelines side by side") {
  PipelinePlan plan{.pipelines = 2};
  plan.rank_of = [](int pipeline, int stage) { return 2 * (3 - stage) + pipeline; };
  plan.more_us = [](int stage) { return stage == 1 ? kForwardUs : 0.0; };
  const Read read = PipelineTraces(plan).read();
  const Pipeline pipeline = pipeline_of(read);
  CHECK(ranks_of(pipeline) ==
        std::vector<std::vector<std::size_t>>{{6, 7}, {4, 5}, {2, 3}, {0, 1}});
  const Finding* const finding = finding_of(read, Cause::kPipeline);
  REQUIRE(finding != nullptr);
  CHECK(finding->text.find("stage 1 (rank 4, rank 5)") != std::string::npos);
  CHECK(finding->rank == -1);
}

TEST_CASE("pipeline: without marks of steps the stages and the bubble are told nevertheless") {
  const PipelinePlan plan{.steps = 40, .step_marks = false};
  const Read read = PipelineTraces(plan).read();
  CHECK_FALSE(read.analysis.by_steps);
  const Pipeline pipeline = pipeline_of(read);
  CHECK(pipeline.stages.size() == 4);
  CHECK(pipeline.bubble() == doctest::Approx(3.0 / 11).epsilon(0.05));
}

TEST_CASE("pipeline: ranks that exchange with both neighbours at once are no pipeline") {
  std::vector<std::string> texts;
  for (int rank = 0; rank < 4; ++rank) {
    RankWriter writer(RankWriter::info_of(rank, 4));
    for (int step = 0; step < 20; ++step) {
      const double at = step * 2000;
      for (const int peer : {(rank + 1) % 4, (rank + 3) % 4}) {
        writer.span(at + 10, at + 20, fmt::format("{}{}", kSendTrack, peer), "SEND");
        writer.span(at + 10, at + 500, fmt::format("{}{}", kRecvTrack, peer), "RECV");
      }
      writer.span(at + 20, at + 500, kWaitTrack, kMessageWaitSpan);
      writer.count(at + 2000, kStepCounter, step + 1);
    }
    texts.push_back(writer.finish());
  }
  const ScratchFolder scratch;
  const Read read = read_traces(write_texts(scratch, texts));
  CHECK(read.analysis.by_steps);
  CHECK_FALSE(find_pipeline(read.job, read.analysis).has_value());
  CHECK(report_data(read.job, read.analysis, read.findings)["pipeline"].is_null());
}

TEST_CASE("pipeline: a rank that deals work to the others is no pipeline") {
  std::vector<std::string> texts;
  for (int rank = 0; rank < 3; ++rank) {
    RankWriter writer(RankWriter::info_of(rank, 3));
    for (int step = 0; step < 20; ++step) {
      const double at = step * 2000;
      for (const int peer : {0, 1, 2}) {
        if ((peer == 0) == (rank == 0)) continue;
        const double first = rank == 0 ? at + 10 : at + 1500;
        const double last = rank == 0 ? at + 1800 : at + 100;
        writer.span(first, first + 10, fmt::format("{}{}", kSendTrack, peer), "SEND");
        writer.span(at + 10, last, fmt::format("{}{}", kRecvTrack, peer), "RECV");
      }
      writer.count(at + 2000, kStepCounter, step + 1);
    }
    texts.push_back(writer.finish());
  }
  const ScratchFolder scratch;
  const Read read = read_traces(write_texts(scratch, texts));
  CHECK_FALSE(find_pipeline(read.job, read.analysis).has_value());
}

TEST_CASE("pipeline: a wait for a message counts as such though a collective is under way") {
  Read read = read_plan({});
  const Means before = means_of(read.analysis);
  for (RankTrace& rank : read.job.ranks) {
    for (NamedSpan& wait : rank.waits) wait.is_message = true;
  }
  const Means means = means_of(analyze(read.job));
  CHECK(before.of(Phase::kWire) > 0);
  CHECK(means.of(Phase::kWire) == 0);
  CHECK(means.of(Phase::kWaiting) == 0);
  CHECK(means.of(Phase::kOutside) == doctest::Approx(before.of(Phase::kOutside)));
  CHECK(means.of(Phase::kOther) > before.of(Phase::kWire));
}

TEST_CASE("pipeline: ranks without messages are none") {
  const Read read = read_plan({});
  CHECK_FALSE(find_pipeline(read.job, read.analysis).has_value());
}

}  // namespace ronde::report
