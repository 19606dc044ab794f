#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/json.h"
#include "timeline/report/reports.h"
#include "timeline/report/spans.h"
#include "timeline/report/statistics.h"
#include "timeline/report/summary.h"
#include "timeline/report/what_if.h"

namespace ronde::report {

// Files beside this one, which the build turns into text.
extern const std::string_view kPageHtml, kPageCss, kPageJs, kZoomJs;

namespace {

constexpr std::size_t kMostPageRows = 200;
constexpr std::size_t kMostBars = 400;      // in the chart over time; more steps share a bar
constexpr std::size_t kMostSpans = 24'000;  // in all shown steps
constexpr std::size_t kBuckets = 24;

double us(std::int64_t ns) { return static_cast<double>(ns) / 1000; }

Json phases_of(const Means& means) {
  Json phases = Json::array();
  for (const double ns : means.phase_ns) phases.push_back(ns / 1000);
  return phases;
}

Json json_of(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"cause", name_of(finding.cause)},
                    {"rank", finding.rank},
                    {"share", finding.share},
                    {"text", finding.text},
                    {"advice", finding.advice}});
  }
  return list;
}

Json json_of(const Means& means) {
  return {{"step", means.step_ns / 1000},
          {"phases", phases_of(means)},
          {"moving", means.moving_ns / 1000},
          {"overlapped", means.overlapped_ns / 1000},
          {"noCore", means.no_core_ns / 1000}};
}

Json ranks_of(const JobTrace& job, const Analysis& analysis) {
  Json list = Json::array();
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const RecordingInfo& info = job.ranks[rank].info;
    Json row{{"rank", info.rank}, {"label", label_of(info)}, {"host", info.host}};
    row.update(json_of(means_of(analysis, rank)));
    list.push_back(std::move(row));
  }
  return list;
}

/// Means of some consecutive steps, over all ranks.
Json bar_of(const Analysis& analysis, std::size_t from, std::size_t to) {
  Analysis part;
  part.steps.assign(analysis.steps.begin() + static_cast<std::ptrdiff_t>(from),
                    analysis.steps.begin() + static_cast<std::ptrdiff_t>(to));
  const Means means = means_of(part);
  return {{"first", part.steps.front().number},
          {"last", part.steps.back().number},
          {"step", means.step_ns / 1000},
          {"phases", phases_of(means)}};
}

Json bars_of(const Analysis& analysis) {
  Json list = Json::array();
  const std::size_t steps = analysis.steps.size();
  const std::size_t width = (steps + kMostBars - 1) / kMostBars;
  for (std::size_t from = 0; from < steps; from += width) {
    list.push_back(bar_of(analysis, from, std::min(steps, from + width)));
  }
  return list;
}

Json in_us(const std::vector<double>& ns) {
  Json list = Json::array();
  for (const double one : ns) list.push_back(one / 1000);
  return list;
}

/// Empty if nothing was marked. The last row is the time in no span.
Json spans_of(const JobTrace& job, const Analysis& analysis) {
  Json list = Json::array();
  const std::vector<SpanTime> spans = span_times(job, analysis);
  for (const SpanTime& span : spans) {
    if (list.size() == kMostPageRows) break;
    list.push_back({{"name", span.name}, {"own", in_us(span.own_ns)}});
  }
  if (!spans.empty()) {
    list.push_back(
        {{"name", "(outside, in no span)"}, {"own", in_us(unmarked_ns(analysis, spans))}});
  }
  return list;
}

Json paths_of(const Analysis& analysis) {
  Json list = Json::array();
  for (const PathCost& path : analysis.paths) {
    list.push_back({path.path.text(), path.bundles, path.tensors, path.bytes, us(path.moving_ns),
                    path.bus_gbps, path.best_gbps});
  }
  return list;
}

Json what_ifs_of(const JobTrace& job, const Analysis& analysis) {
  Json list = Json::array();
  const double step_ns = means_of(analysis).step_ns;
  for (const WhatIf& change : what_ifs(job, analysis)) {
    const auto cell = [&](const std::string& text) {
      return Json{{"text", text}, {"by", change.saved_ns}};
    };
    list.push_back({change.change, cell(share_text(change, step_ns)), cell(time_text(change))});
  }
  return list;
}

Json tensors_of(const JobTrace& job) {
  Json list = Json::array();
  for (const TensorRow& row : costliest_tensors(job, kMostPageRows)) {
    const auto count = static_cast<double>(row.cost.count);
    list.push_back({row.name, row.cost.count, static_cast<double>(row.cost.bytes) / count,
                    us(row.cost.negotiation_ns) / count, us(row.cost.execution_ns) / count});
  }
  return list;
}

Json bundles_of(const JobTrace& job, const Analysis& analysis) {
  Json list = Json::array();
  for (const Bundle* bundle : costliest_bundles(analysis, kMostPageRows)) {
    list.push_back({name_of(*bundle, job), bundle->span->tensors, bundle->span->bytes,
                    us(bundle->skew_ns()), job.ranks[bundle->last].info.rank,
                    us(bundle->moving_ns())});
  }
  return list;
}

Json json_of(const Histogram& histogram, std::string_view title) {
  return {{"title", title}, {"unit", histogram.unit}, {"counts", histogram.counts}};
}

Json histograms_of(const Analysis& analysis) {
  std::vector<double> durations;
  std::vector<double> skews;
  std::vector<double> movings;
  for (const Step& step : analysis.steps) {
    for (const Split& split : step.ranks) durations.push_back(us(split.duration_ns()));
  }
  for (const Bundle& bundle : analysis.bundles) {
    skews.push_back(us(bundle.skew_ns()));
    movings.push_back(us(bundle.moving_ns()));
  }
  Json list = Json::array();
  list.push_back(json_of(histogram(durations, 1, kBuckets),
                         fmt::format("Duration of a {}", unit_of(analysis))));
  list.push_back(json_of(histogram(skews, 1, kBuckets), "First to last rank ready for a bundle"));
  list.push_back(json_of(histogram(movings, 1, kBuckets), "Moving a bundle"));
  return list;
}

/// One rank's step for the zoomable picture. Times are relative to `zero`.
class StepPicture {
 public:
  StepPicture(const JobTrace& job, const Analysis& analysis, std::size_t step, std::size_t most)
      : job_(job), step_(analysis.steps[step]), most_(most) {
    zero_ = step_.ranks.front().start_ns;
    for (const Split& split : step_.ranks) zero_ = std::min(zero_, split.start_ns);
  }

  Json rank(std::size_t index) const {
    const RankTrace& rank = job_.ranks[index];
    return {{"rank", rank.info.rank},
            {"label", label_of(rank.info)},
            {"from", us(step_.ranks[index].start_ns - zero_)},
            {"to", us(step_.ranks[index].end_ns - zero_)},
            {"waits", named(rank.waits, index, [](const auto&) { return true; })},
            {"marks", named(rank.marks, index, [](const auto& mark) { return !mark.is_pass; })},
            {"passes", named(rank.marks, index, [](const auto& mark) { return mark.is_pass; })},
            {"operations", operations(rank, index)}};
  }

 private:
  [[nodiscard]] bool inside(std::int64_t start, std::int64_t end, std::size_t index) const {
    return end > step_.ranks[index].start_ns && start < step_.ranks[index].end_ns;
  }

  template <typename Wanted>
  [[nodiscard]] Json named(const std::vector<NamedSpan>& spans, std::size_t index,
                           Wanted wanted) const {
    Json list = Json::array();
    for (const NamedSpan& span : spans) {
      if (!wanted(span)) continue;
      if (list.size() >= most_) break;
      if (!inside(span.start_ns, span.end_ns, index)) continue;
      list.push_back(
          {job_.names.text_of(span.name), us(span.start_ns - zero_), us(span.end_ns - zero_)});
    }
    return list;
  }

  [[nodiscard]] Json operations(const RankTrace& rank, std::size_t index) const {
    std::vector<const OperationSpan*> spans;
    for (const OperationSpan& span : rank.operations) {
      if (inside(span.first_submit_ns, span.end_ns, index)) spans.push_back(&span);
    }
    if (spans.size() > most_) {  // keep the longest
      std::nth_element(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(most_),
                       spans.end(), [](const auto* a, const auto* b) {
                         return a->end_ns - a->first_submit_ns > b->end_ns - b->first_submit_ns;
                       });
      spans.resize(most_);
    }
    Json list = Json::array();
    for (const OperationSpan* span : spans) list.push_back(operation(*span));
    return list;
  }

  [[nodiscard]] Json operation(const OperationSpan& span) const {
    return {job_.names.text_of(span.name),
            span.tensors,
            span.bytes,
            job_.paths[span.path].text(),
            us(span.first_submit_ns - zero_),
            us(span.last_submit_ns - zero_),
            us(span.agreed_ns - zero_),
            us(span.start_ns - zero_),
            us(span.end_ns - zero_)};
  }

  const JobTrace& job_;
  const Step& step_;
  const std::size_t most_;
  std::int64_t zero_ = 0;
};

Json pictures_of(const JobTrace& job, const Analysis& analysis) {
  Json list = Json::array();
  const auto chosen = chosen_steps(analysis);
  if (chosen.empty()) return list;
  const std::size_t most = std::max<std::size_t>(10, kMostSpans / chosen.size() / job.ranks.size());
  for (const ChosenStep& step : chosen) {
    const StepPicture picture(job, analysis, step.index, most);
    Json ranks = Json::array();
    for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) ranks.push_back(picture.rank(rank));
    list.push_back(
        {{"number", analysis.steps[step.index].number}, {"why", step.why}, {"ranks", ranks}});
  }
  return list;
}

/// Rows: number, start, length, ranks, cause, kind of the transition, its length, lost work, steps.
Json epochs_of(std::span<const Epoch> history) {
  Json list = Json::array();
  for (std::size_t i = 0; i < history.size(); ++i) {
    const Epoch& epoch = history[i];
    const Transition transition = epoch.transition.value_or(Transition());
    const char* const kind = !epoch.transition ? "" : transition.failed ? "recovery" : "change";
    list.push_back({epoch.number, us(epoch.begin_ns - history.front().begin_ns),
                    us(epoch.duration_ns()), epoch.workers.size(),
                    cause_of(epoch, i > 0 ? &history[i - 1] : nullptr), kind,
                    us(transition.duration_ns()), us(std::max<std::int64_t>(0, transition.lost_ns)),
                    transition.lost_steps});
  }
  return list;
}

Json data_of(const PageParts& parts) {
  const JobTrace& job = parts.job;
  const Analysis& analysis = parts.analysis;
  Json phases = Json::array();
  for (std::size_t i = 0; i < kPhases; ++i) phases.push_back(name_of(static_cast<Phase>(i)));
  return {{"size", job.ranks.front().info.size},
          {"events", job.events},
          {"unit", unit_of(analysis)},
          {"stepsNote", steps_note(analysis)},
          {"stepCount", analysis.steps.size()},
          {"notes", job.notes},
          {"findings", json_of(parts.findings)},
          {"epochs", epochs_of(parts.history)},
          {"phases", phases},
          {"all", json_of(means_of(analysis))},
          {"ranks", ranks_of(job, analysis)},
          {"spans", spans_of(job, analysis)},
          {"bars", bars_of(analysis)},
          {"paths", paths_of(analysis)},
          {"fusion",
           {{"bundles", analysis.fusion.bundles},
            {"tensors", analysis.fusion.tensors},
            {"bytes", analysis.fusion.bytes},
            {"medianBytes", analysis.fusion.median_bundle_bytes},
            {"efficiency", fusion_efficiency(analysis)}}},
          {"bandwidthNote", bandwidth_note(job)},
          {"costModel", cost_model(analysis)},
          {"whatIfs", what_ifs_of(job, analysis)},
          {"tensors", tensors_of(job)},
          {"bundles", bundles_of(job, analysis)},
          {"histograms", histograms_of(analysis)},
          {"pictures", pictures_of(job, analysis)}};
}

/// Escapes JSON for a script element, so that nothing ends the element.
std::string script_json(const Json& json) {
  const std::string text = print_json(json);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else {
      safe += c;
    }
  }
  return safe;
}

void replace(std::string& page, std::string_view mark, std::string_view by) {
  const std::size_t at = page.find(mark);
  if (at != std::string::npos) page.replace(at, mark.size(), by);
}

}  // namespace

std::string html_page(const PageParts& parts) {
  std::string page(kPageHtml);
  replace(page, "/*STYLE*/", kPageCss);
  replace(page, "/*SCRIPT*/", kPageJs);
  replace(page, "/*ZOOM*/", kZoomJs);
  replace(page, "<!--TEXT-->", escaped(parts.text));
  replace(page, "\"DATA\"", script_json(data_of(parts)));
  return page;
}

std::string text_page(const std::string& title, const std::string& text) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>TITLE</title>\n"
      "<style>/*STYLE*/ pre { white-space: pre-wrap; }</style>\n</head>\n<body>\n<main>\n"
      "<h1>TITLE</h1>\n<pre><!--TEXT--></pre>\n</main>\n</body>\n</html>\n";
  replace(page, "TITLE", escaped(title));
  replace(page, "TITLE", escaped(title));
  replace(page, "/*STYLE*/", kPageCss);
  replace(page, "<!--TEXT-->", escaped(text));
  return page;
}

}  // namespace ronde::report
