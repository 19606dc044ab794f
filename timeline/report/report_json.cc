#include <string>

#include "core/base/json.h"
#include "timeline/report/pipeline.h"
#include "timeline/report/reports.h"
#include "timeline/report/spans.h"
#include "timeline/report/summary.h"
#include "timeline/report/what_if.h"

namespace ronde::report {
namespace {

constexpr int kJsonVersion = 1;  // of the keys
constexpr std::size_t kMostJsonRows = 200;

Json in_ms(const std::vector<double>& ns) {
  Json list = Json::array();
  for (const double one : ns) list.push_back(ms(one));
  return list;
}

Json finding_rows(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"cause", name_of(finding.cause)},
                    {"rank", finding.rank < 0 ? Json() : Json(finding.rank)},
                    {"share", finding.share},
                    {"text", finding.text},
                    {"advice", finding.advice}});
  }
  return list;
}

Json rank_rows(const JobTrace& job, const Analysis& analysis) {
  Json list = Json::array();
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    const RecordingInfo& info = job.ranks[i].info;
    Json rank{{"rank", info.rank}, {"label", label_of(info)}, {"host", info.host}};
    rank.update(times_json(means_of(analysis, i)));
    list.push_back(std::move(rank));
  }
  return list;
}

Json span_rows(const std::vector<SpanTime>& spans, double step_ns) {
  Json list = Json::array();
  for (const SpanTime& span : spans) {
    list.push_back({{"name", span.name},
                    {"pass", span.is_pass},
                    {"share", step_ns > 0 ? span.mean_own_ns() / step_ns : 0},
                    {"own_ms", in_ms(span.own_ns)},
                    {"whole_ms", in_ms(span.whole_ns)}});
  }
  return list;
}

/// Null if there is no pipeline.
Json pipeline_json(const JobTrace& job, const Analysis& analysis) {
  const auto pipeline = find_pipeline(job, analysis);
  if (!pipeline) return {};
  Json stages = Json::array();
  for (const Stage& stage : pipeline->stages) {
    Json ranks = Json::array();
    for (const std::size_t rank : stage.ranks) ranks.push_back(job.ranks[rank].info.rank);
    stages.push_back(
        {{"ranks", ranks}, {"work_ms", ms(stage.work_ns)}, {"idle_ms", ms(stage.idle_ns)}});
  }
  return {{"stages", stages},
          {"slowest", pipeline->slowest},
          {"bubble", pipeline->bubble()},
          {"schedule", pipeline->schedule_share()}};
}

Json path_rows(const Analysis& analysis) {
  Json list = Json::array();
  for (const PathCost& path : analysis.paths) {
    list.push_back({{"path", path.path.text()},
                    {"bundles", path.bundles},
                    {"tensors", path.tensors},
                    {"bytes", path.bytes},
                    {"moving_ms", ms(path.moving_ns)},
                    {"bus_gbps", path.bus_gbps},
                    {"best_gbps", path.best_gbps}});
  }
  return list;
}

Json tensor_rows(const JobTrace& job) {
  Json list = Json::array();
  for (const TensorRow& row : costliest_tensors(job, kMostJsonRows)) {
    list.push_back({{"name", row.name},
                    {"count", row.cost.count},
                    {"bytes", row.cost.bytes},
                    {"negotiation_ms", ms(row.cost.negotiation_ns)},
                    {"moving_ms", ms(row.cost.execution_ns)}});
  }
  return list;
}

Json change_rows(const JobTrace& job, const Analysis& analysis) {
  Json list = Json::array();
  const double step_ns = means_of(analysis).step_ns;
  for (const WhatIf& change : what_ifs(job, analysis)) {
    list.push_back({{"change", change.change},
                    {"saved_ms", ms(change.saved_ns)},
                    {"least_ms", ms(change.least_ns)},
                    {"most_ms", ms(change.most_ns)},
                    {"share_text", share_text(change, step_ns)},
                    {"time_text", time_text(change)}});
  }
  return list;
}

Json json_of(const Difference& change, double step_ns) {
  return {{"name", change.what},
          {"before_ms", ms(change.before_ns)},
          {"after_ms", ms(change.after_ns)},
          {"p", change.p},
          {"counts", change.counts(step_ns)}};
}

/// A dump's head, without the operations.
Json json_of(const Dump& dump) {
  return {{"rank", dump.rank},     {"host", dump.host},       {"pid", dump.pid},
          {"reason", dump.reason}, {"failure", dump.failure}, {"summary", summarize_dump(dump)}};
}

}  // namespace

Json times_json(const Means& means) {
  Json times{{"step_ms", ms(means.step_ns)}};
  for (std::size_t i = 0; i < kPhases; ++i) {
    times[std::string(key_of(static_cast<Phase>(i)))] = ms(means.phase_ns[i]);
  }
  times["moving_ms"] = ms(means.moving_ns);
  times["overlapped_ms"] = ms(means.overlapped_ns);
  times["without_core_ms"] = ms(means.no_core_ns);
  return times;
}

Json report_data(const JobTrace& job, const Analysis& analysis,
                 const std::vector<Finding>& findings) {
  const Means means = means_of(analysis);
  const std::vector<SpanTime> spans = span_times(job, analysis);
  const bool has_steps = !analysis.steps.empty();
  return {{"version", kJsonVersion},
          {"kind", "report"},
          {"size", job.ranks.front().info.size},
          {"epoch", job.epoch},
          {"events", job.events},
          {"unit", unit_of(analysis)},
          {"steps", analysis.steps.size()},
          {"notes", job.notes},
          {"findings", finding_rows(findings)},
          {"mean", times_json(means)},
          {"ranks", rank_rows(job, analysis)},
          {"spans", span_rows(spans, means.step_ns)},
          {"unmarked_ms", has_steps ? in_ms(unmarked_ns(analysis, spans)) : Json::array()},
          {"pipeline", pipeline_json(job, analysis)},
          {"paths", path_rows(analysis)},
          {"tensors", tensor_rows(job)},
          {"what_if", has_steps ? change_rows(job, analysis) : Json::array()}};
}

std::string report_json(const JobTrace& job, const Analysis& analysis,
                        const std::vector<Finding>& findings) {
  return json_document(report_data(job, analysis, findings));
}

std::string fault_json(const JobDumps& dumps, const std::vector<Finding>& findings) {
  Json ranks = Json::array();
  for (const Dump& dump : dumps.ranks) ranks.push_back(json_of(dump));
  return json_document({{"version", kJsonVersion},
                        {"kind", "failure"},
                        {"job", dumps.ranks.front().job},
                        {"size", dumps.ranks.front().size},
                        {"notes", dumps.notes},
                        {"findings", finding_rows(findings)},
                        {"ranks", ranks}});
}

std::string diff_json(const Diff& diff) {
  Json parts = Json::array();
  for (const Difference& part : diff.parts) parts.push_back(json_of(part, diff.step.before_ns));
  Json tensors = Json::array();
  for (const TensorChange& change : diff.tensors) {
    tensors.push_back({{"name", change.name},
                       {"before_ms", ms(change.before_ns)},
                       {"after_ms", ms(change.after_ns)}});
  }
  return json_document({{"version", kJsonVersion},
                        {"kind", "diff"},
                        {"steps_before", diff.steps_before},
                        {"steps_after", diff.steps_after},
                        {"step", json_of(diff.step, diff.step.before_ns)},
                        {"parts", parts},
                        {"tensors", tensors},
                        {"cause", diff.cause},
                        {"notes", diff.notes}});
}

}  // namespace ronde::report
