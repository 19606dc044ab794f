#include <fmt/format.h>

#include <algorithm>
#include <functional>
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

double us(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

/// Means of some consecutive steps, over all ranks.
Json bar_of(const Analysis& analysis, std::size_t from, std::size_t to) {
  Analysis part;
  part.steps.assign(analysis.steps.begin() + static_cast<std::ptrdiff_t>(from),
                    analysis.steps.begin() + static_cast<std::ptrdiff_t>(to));
  Json bar{{"first", part.steps.front().number}, {"last", part.steps.back().number}};
  bar.update(times_json(means_of(part)));
  return bar;
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

Json bundles_of(const JobTrace& job, const Analysis& analysis) {
  Json list = Json::array();
  for (const Bundle* bundle : costliest_bundles(analysis, kMostPageRows)) {
    list.push_back({name_of(*bundle, job), bundle->span->tensors, bundle->span->bytes,
                    ms(bundle->skew_ns()), job.ranks[bundle->last].info.rank,
                    ms(bundle->moving_ns())});
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
            {"from", ms(step_.ranks[index].start_ns - zero_)},
            {"to", ms(step_.ranks[index].end_ns - zero_)},
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
          {job_.names.text_of(span.name), ms(span.start_ns - zero_), ms(span.end_ns - zero_)});
    }
    return list;
  }

  [[nodiscard]] Json operations(const RankTrace& rank, std::size_t index) const {
    std::vector<const OperationSpan*> spans;
    for (const OperationSpan& span : rank.operations) {
      if (inside(span.first_submit_ns, span.end_ns, index)) spans.push_back(&span);
    }
    if (spans.size() > most_) {  // keep the longest
      std::ranges::nth_element(
          spans, spans.begin() + static_cast<std::ptrdiff_t>(most_), std::greater(),
          [](const OperationSpan* span) { return span->end_ns - span->first_submit_ns; });
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
            ms(span.first_submit_ns - zero_),
            ms(span.last_submit_ns - zero_),
            ms(span.agreed_ns - zero_),
            ms(span.start_ns - zero_),
            ms(span.end_ns - zero_)};
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
    list.push_back({epoch.number, ms(epoch.begin_ns - history.front().begin_ns),
                    ms(epoch.duration_ns()), epoch.workers.size(),
                    cause_of(epoch, i > 0 ? &history[i - 1] : nullptr), kind,
                    ms(transition.duration_ns()), ms(std::max<std::int64_t>(0, transition.lost_ns)),
                    transition.lost_steps});
  }
  return list;
}

/// The report for programs, and what the page alone shows. Times are milliseconds, but those of
/// histograms.
Json data_of(const PageParts& parts) {
  const JobTrace& job = parts.job;
  const Analysis& analysis = parts.analysis;
  Json phases = Json::array();
  for (std::size_t i = 0; i < kPhases; ++i) {
    const Phase phase = static_cast<Phase>(i);
    phases.push_back({key_of(phase), name_of(phase)});
  }
  Json data = report_data(job, analysis, parts.findings);
  data.update(Json{{"stepsNote", steps_note(analysis)},
                   {"epochs", epochs_of(parts.history)},
                   {"phases", phases},
                   {"bars", bars_of(analysis)},
                   {"fusion",
                    {{"bundles", analysis.fusion.bundles},
                     {"tensors", analysis.fusion.tensors},
                     {"medianBytes", analysis.fusion.median_bundle_bytes},
                     {"efficiency", fusion_efficiency(analysis)}}},
                   {"bandwidthNote", bandwidth_note(job)},
                   {"costModel", cost_model(analysis)},
                   {"bundles", bundles_of(job, analysis)},
                   {"histograms", histograms_of(analysis)},
                   {"pictures", pictures_of(job, analysis)}});
  if (Json& spans = data["spans"]; spans.size() > kMostPageRows) {
    spans.erase(spans.begin() + std::ptrdiff_t{kMostPageRows}, spans.end());
  }
  return data;
}

/// The text with `by` in place of each `mark`.
std::string replaced(std::string_view text, std::string_view mark, std::string_view by) {
  std::string out;
  for (std::size_t at = 0; (at = text.find(mark)) != std::string_view::npos;) {
    out.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + mark.size());
  }
  return out.append(text);
}

std::string escaped(std::string_view text) {
  return replaced(replaced(text, "&", "&amp;"), "<", "&lt;");
}

/// JSON for a script element, without anything that ends the element.
std::string script_json(const Json& json) { return replaced(print_json(json), "<", "\\u003c"); }

}  // namespace

std::string html_page(const PageParts& parts) {
  std::string page(kPageHtml);
  page = replaced(page, "/*STYLE*/", kPageCss);
  page = replaced(page, "/*SCRIPT*/", kPageJs);
  page = replaced(page, "/*ZOOM*/", kZoomJs);
  page = replaced(page, "\"DATA\"", script_json(data_of(parts)));
  page = replaced(page, "<!--TEXT-->", escaped(parts.text));  // last, as it may have any other mark
  return page;
}

std::string text_page(const std::string& title, const std::string& text) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>TITLE</title>\n"
      "<style>/*STYLE*/ pre { white-space: pre-wrap; }</style>\n</head>\n<body>\n<main>\n"
      "<h1>TITLE</h1>\n<pre><!--TEXT--></pre>\n</main>\n</body>\n</html>\n";
  page = replaced(page, "TITLE", escaped(title));
  page = replaced(page, "/*STYLE*/", kPageCss);
  page = replaced(page, "<!--TEXT-->", escaped(text));
  return page;
}

}  // namespace ronde::report
