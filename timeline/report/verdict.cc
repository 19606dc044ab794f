#include "timeline/report/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/join_text.h"
#include "timeline/report/pipeline.h"
#include "timeline/report/spans.h"
#include "timeline/report/summary.h"
#include "timeline/report/what_if.h"

namespace ronde::report {
namespace {

// Smallest share of a step's time at which each cause is reported.
constexpr double kTinyShare = 0.05;
constexpr double kNegotiationShare = 0.10;
constexpr double kWireShare = 0.20;
constexpr double kPackShare = 0.05;
constexpr double kGainShare = 0.03;

constexpr double kTinyBytes = 64e3;
constexpr double kManyBundles = 8;

bool is_tiny(const Analysis& analysis, const Means& means) {
  const Fusion& fusion = analysis.fusion;
  const double exposed =
      means.share(Phase::kNegotiation) + means.share(Phase::kPack) + means.share(Phase::kWire);
  return fusion.bundles >= kManyBundles && fusion.median_bundle_bytes <= kTinyBytes &&
         fusion.tensors < 2 * fusion.bundles && exposed >= kTinyShare;
}

Finding tiny_tensors(const JobTrace& job, const Analysis& analysis, const Means& means) {
  const Fusion& fusion = analysis.fusion;
  Finding finding{.cause = Cause::kTinyTensors};
  finding.share =
      means.share(Phase::kNegotiation) + means.share(Phase::kPack) + means.share(Phase::kWire);
  finding.text = fmt::format(
      "Many small operations: each {} moves {:.0f} bundles of {:.1f} tensors, half of them of {} "
      "or less, and is blocked for {} ({:.0f} %) by them.",
      unit_of(analysis), fusion.bundles, fusion.tensors / fusion.bundles,
      human_bytes(fusion.median_bundle_bytes), human_time(finding.share * means.step_ns),
      percent(finding.share));
  finding.text += fmt::format(" One of them is \"{}\".", costliest_tensors(job, 1).front().name);
  finding.advice =
      fusion.one_by_one > 0.8
          ? "Each is submitted only when the one before has ended, so nothing can be fused: submit "
            "them all (allreduce_async, or grouped_allreduce) and wait afterwards."
          : "They are hardly fused: see that RONDE_FUSION_THRESHOLD is not 0, and submit tensors "
            "of one type together.";
  return finding;
}

/// The tensor that negotiates longest in all.
std::string longest_negotiation(const JobTrace& job) {
  const auto longest = std::ranges::max_element(
      job.tensors, {}, [](const auto& tensor) { return tensor.second.negotiation_ns; });
  return longest == job.tensors.end() ? std::string() : job.names.text_of(longest->first);
}

Finding negotiation(const JobTrace& job, const Analysis& analysis, const Means& means) {
  Finding finding{.cause = Cause::kNegotiation, .share = means.share(Phase::kNegotiation)};
  finding.text = fmt::format(
      "Negotiation and queueing block for {} of each {} ({:.0f} %), after all ranks have submitted "
      "({:.0f} bundles a {}).",
      human_time(means.of(Phase::kNegotiation)), human_time(means.step_ns), percent(finding.share),
      analysis.fusion.bundles, unit_of(analysis));
  finding.text += fmt::format(" The longest is that of \"{}\".", longest_negotiation(job));
  finding.advice =
      "Fewer, larger operations need less of it; more ranks than cores on a host make it slow.";
  return finding;
}

/// True if most of the bundles' time does not depend on their size.
bool is_latency(const Analysis& analysis) {
  const double efficiency = fusion_efficiency(analysis);
  return efficiency >= 0 && efficiency < 0.5;
}

/// "What would save 15 to 27 % of a step, by the costs measured here: one bundle ...", or nothing.
std::string hint(const WhatIf* change, const Analysis& analysis, const Means& means) {
  if (change == nullptr || change->saved_ns < kGainShare * means.step_ns) return {};
  return fmt::format("What would save {} of a {}, by the costs measured here: {}.",
                     share_text(*change, means.step_ns), unit_of(analysis), change->change);
}

std::string with_hint(std::string advice, const std::string& hint) {
  if (!hint.empty()) advice += (advice.empty() ? "" : " ") + hint;
  return advice;
}

/// " The longest bundle is \"allreduce.w and 3 more\".", or nothing.
std::string longest_bundle(const JobTrace& job, const Analysis& analysis) {
  const auto longest = costliest_bundles(analysis, 1);
  if (longest.empty()) return {};
  return fmt::format(" The longest bundle is \"{}\".", name_of(*longest.front(), job));
}

Finding wire(const JobTrace& job, const Analysis& analysis, const Means& means) {
  Finding finding{.cause = Cause::kWire, .share = means.share(Phase::kWire)};
  const double hidden = means.moving_ns > 0 ? means.overlapped_ns / means.moving_ns : 0;
  finding.text = fmt::format(
      "Moving data blocks for {} of each {} ({:.0f} %); {:.0f} % of the moving is hidden behind "
      "compute.",
      human_time(means.of(Phase::kWire)), human_time(means.step_ns), percent(finding.share),
      percent(hidden));
  if (!analysis.paths.empty()) {
    finding.text +=
        fmt::format(" {} reaches {} of bus bandwidth.", analysis.paths.front().path.text(),
                    human_rate(analysis.paths.front().bus_gbps));
  }
  finding.text += longest_bundle(job, analysis);
  const std::vector<WhatIf> changes = what_ifs(job, analysis);
  if (is_latency(analysis)) {
    finding.advice = with_hint(
        "A bundle takes most of that whatever its size: latency, which more ranks than cores on a "
        "host make worse; fewer bytes would not help, fewer bundles would.",
        hint(best_of(changes, Change::kFusion), analysis, means));
  } else {
    finding.advice = with_hint(
        "Move fewer bytes (compression), or less often (backward_passes_per_step, larger batches). "
        "`ronde bench allreduce` tells what the links here can do.",
        hint(best_of(changes, Change::kCompression), analysis, means));
  }
  return finding;
}

Finding pack(const JobTrace& job, const Analysis& analysis, const Means& means) {
  Finding finding{.cause = Cause::kPack, .share = means.share(Phase::kPack)};
  finding.text = fmt::format(
      "Copies into and out of the fusion buffer block for {} of each {} ({:.0f} %).",
      human_time(means.of(Phase::kPack)), human_time(means.step_ns), percent(finding.share));
  finding.text += longest_bundle(job, analysis);
  finding.advice = "A smaller RONDE_FUSION_THRESHOLD copies less at once.";
  return finding;
}

/// Ranks that submitted an operation without agreement, by the operation's name.
using Waiting = std::map<std::uint32_t, std::set<int>>;

Finding unfinished(const JobTrace& job) {
  Waiting waiting;
  Waiting moving;
  for (const RankTrace& rank : job.ranks) {
    for (const Unfinished& operation : rank.unfinished) {
      (operation.agreed ? moving : waiting)[operation.name].insert(rank.info.row());
    }
  }
  Finding finding{.cause = Cause::kUnfinished, .share = 1};
  if (waiting.empty() && moving.empty()) return finding;
  const bool stuck = moving.empty();
  const auto& [name, there] = stuck ? *waiting.begin() : *moving.begin();
  std::vector<int> absent;
  for (const RankTrace& rank : job.ranks) {
    if (!there.contains(rank.info.row())) absent.push_back(rank.info.row());
  }
  const std::size_t count = waiting.size() + moving.size();
  const bool one = count == 1;
  const char* const word = job.epoch > 0 ? "worker" : "rank";
  finding.text = fmt::format(
      "{} operation{} {} {}. \"{}\" was {} {} {}", count, one ? "" : "s",
      job.running ? (one ? "has been" : "have been") : (one ? "was" : "were"),
      job.running ? "under way for long" : "under way when the job ended", job.names.text_of(name),
      stuck ? "submitted by" : "moving data on", word, join_text(there, ", "));
  finding.text += absent.empty() ? "."
                                 : fmt::format(", but not {} {} {}.", stuck ? "by" : "on", word,
                                               join_text(absent, ", "));
  if (absent.size() == 1) finding.rank = absent.front();
  finding.advice = "Look first at what the ranks that did not take part were doing.";
  return finding;
}

Finding nothing(const Analysis& analysis, const Means& means) {
  Finding finding{.cause = Cause::kNone};
  finding.advice =
      analysis.steps.empty()
          ? "Record at least a few steps."
          : "ronde.mark_span(\"...\") around the parts of a step shows which of them takes long; "
            "`ronde timeline diff` compares two runs.";
  finding.text =
      analysis.steps.empty()
          ? std::string("The traces hold too little to tell anything from.")
          : fmt::format(
                "Nothing stands out: of each {} of {}, {:.0f} % is outside Ronde, and no rank is "
                "late more often than chance has it.",
                unit_of(analysis), human_time(means.step_ns),
                percent(means.share(Phase::kOutside)));
  return finding;
}

void add_costs(const JobTrace& job, const Analysis& analysis, const Means& means,
               std::vector<Finding>& findings) {
  if (is_tiny(analysis, means)) {
    Finding& tiny = findings.emplace_back(tiny_tensors(job, analysis, means));
    tiny.advice =
        with_hint(std::move(tiny.advice),
                  hint(best_of(what_ifs(job, analysis), Change::kFusion), analysis, means));
    return;
  }
  if (means.share(Phase::kNegotiation) >= kNegotiationShare) {
    findings.push_back(negotiation(job, analysis, means));
  }
  if (means.share(Phase::kWire) >= kWireShare) findings.push_back(wire(job, analysis, means));
  if (means.share(Phase::kPack) >= kPackShare) findings.push_back(pack(job, analysis, means));
}

}  // namespace

std::vector<Finding> find_causes(const JobTrace& job, const Analysis& analysis) {
  std::vector<Finding> findings;
  const Means means = means_of(analysis);
  if (!analysis.steps.empty()) {
    findings = find_waiting(job, analysis);
    if (const auto pipeline = find_pipeline(job, analysis)) {
      std::erase_if(findings, [](const Finding& one) { return one.cause == Cause::kUneven; });
      if (auto bubble = find_bubble(*pipeline, job, analysis)) findings.push_back(*bubble);
    }
    add_costs(job, analysis, means, findings);
    if (auto span = find_long_span(job, analysis)) findings.push_back(std::move(*span));
  }
  std::ranges::stable_sort(findings, std::greater(), &Finding::share);
  if (auto outages = find_outages(job)) findings.insert(findings.begin(), std::move(*outages));
  if (Finding end = unfinished(job); !end.text.empty()) findings.insert(findings.begin(), end);
  if (findings.empty()) findings.push_back(nothing(analysis, means));
  return findings;
}

std::string_view name_of(Cause cause) noexcept {
  constexpr std::array<std::string_view, 13> kNames = {
      "unfinished",   "outage",      "straggler", "contention", "pipeline", "uneven", "span",
      "tiny tensors", "negotiation", "wire",      "pack",       "failure",  "none"};
  return kNames[static_cast<std::size_t>(cause)];
}

}  // namespace ronde::report
