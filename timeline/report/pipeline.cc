#include "timeline/report/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "core/base/join_text.h"
#include "timeline/report/summary.h"

namespace ronde::report {
namespace {

constexpr double kBubbleShare = 0.03;  // of a step
constexpr double kUnevenStages = 0.03;
constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::max();

/// The first messages of a rank in one step.
struct FirstMessages {
  std::int64_t sent_ns = kNoTime;  ///< When the first send began.
  int to = -1;
  std::int64_t received_ns = kNoTime;  ///< When the first receive ended.

  void take(const MessageSpan& message) {
    if (!message.is_send) {
      received_ns = std::min(received_ns, message.end_ns);
    } else if (message.start_ns < sent_ns) {
      sent_ns = message.start_ns;
      to = message.peer;
    }
  }
};

/// The part of a rank in the messages of the steps.
struct Neighbours {
  bool active = false;         ///< It has messages in most steps.
  std::size_t steps = 0;       ///< With messages.
  std::size_t begun = 0;       ///< Steps in which it sends before it has received.
  std::map<int, int> send_to;  ///< Steps by the rank that gets the first message.

  [[nodiscard]] bool begins() const { return 2 * begun > steps; }
  /// The rank that gets the first message in most steps; -1: none.
  [[nodiscard]] int next() const {
    const auto most =
        std::ranges::max_element(send_to, {}, [](const auto& entry) { return entry.second; });
    return most == send_to.end() ? -1 : most->first;
  }
};

/// Windows of time do not begin with a step; all of them are one.
Neighbours neighbours_of(const RankTrace& rank, std::size_t index, const Analysis& analysis) {
  std::map<std::size_t, FirstMessages> steps;
  for (const MessageSpan& message : rank.messages) {
    const std::int64_t at_ns = message.is_send ? message.start_ns : message.end_ns;
    const std::size_t step = analysis.by_steps ? step_at(analysis, index, at_ns) : 0;
    if (step < analysis.steps.size()) steps[step].take(message);
  }
  Neighbours found;
  found.steps = steps.size();
  found.active = 2 * steps.size() > (analysis.by_steps ? analysis.steps.size() : 1);
  for (const auto& [step, first] : steps) {
    found.begun += first.sent_ns < first.received_ns;
    if (first.to >= 0) ++found.send_to[first.to];
  }
  return found;
}

using Chain = std::vector<std::size_t>;

/// The chains of ranks from those that begin; empty if a rank with messages is in none of them.
class Chains {
 public:
  Chains(const JobTrace& job, const Analysis& analysis) {
    for (std::size_t i = 0; i < job.ranks.size(); ++i) {
      index_of_[job.ranks[i].info.rank] = i;
      ranks_.push_back(neighbours_of(job.ranks[i], i, analysis));
    }
    used_.resize(ranks_.size());
  }

  std::vector<Chain> find() {
    std::vector<Chain> chains;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].active && ranks_[i].begins()) chains.push_back(from(i));
    }
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].active && !used_[i]) return {};
    }
    const bool alike = std::ranges::all_of(chains, [&](const Chain& chain) {
      return chain.size() > 1 && chain.size() == chains.front().size();
    });
    return alike ? chains : std::vector<Chain>();
  }

 private:
  Chain from(std::size_t first) {
    Chain chain{first};
    used_[first] = true;
    for (auto next = after(first); next; next = after(*next)) {
      used_[*next] = true;
      chain.push_back(*next);
    }
    return chain;
  }

  [[nodiscard]] std::optional<std::size_t> after(std::size_t rank) const {
    const auto next = index_of_.find(ranks_[rank].next());
    if (next == index_of_.end() || used_[next->second]) return {};
    if (!ranks_[next->second].active || ranks_[next->second].begins()) return {};
    return next->second;
  }

  std::map<int, std::size_t> index_of_;
  std::vector<Neighbours> ranks_;
  std::vector<bool> used_;
};

double idle_ns(const Split& split) {
  return static_cast<double>(split.of(Phase::kOther) + split.of(Phase::kWaiting));
}

double idle_ns(const Stage& stage, const Step& step) {
  double sum = 0;
  for (const std::size_t rank : stage.ranks) sum += idle_ns(step.ranks[rank]);
  return sum / static_cast<double>(stage.ranks.size());
}

void measure(Stage& stage, const Analysis& analysis) {
  double step_ns = 0;
  for (const std::size_t rank : stage.ranks) step_ns += means_of(analysis, rank).step_ns;
  for (const Step& step : analysis.steps) stage.idle_ns += idle_ns(stage, step);
  stage.idle_ns /= static_cast<double>(analysis.steps.size());
  stage.work_ns = step_ns / static_cast<double>(stage.ranks.size()) - stage.idle_ns;
}

/// The index of the stage with the least idle time.
template <typename Idle>
std::size_t least_idle(const std::vector<Stage>& stages, Idle idle) {
  const auto least = std::ranges::min_element(stages, {}, idle);
  return static_cast<std::size_t>(least - stages.begin());
}

void find_slowest(Pipeline& pipeline, const Analysis& analysis) {
  pipeline.slowest = least_idle(pipeline.stages, &Stage::idle_ns);
  for (const Step& step : analysis.steps) {
    const auto in_step = [&](const Stage& stage) { return idle_ns(stage, step); };
    pipeline.slowest_steps += least_idle(pipeline.stages, in_step) == pipeline.slowest ? 1 : 0;
  }
  pipeline.slowest_steps /= static_cast<double>(analysis.steps.size());
}

/// The mean work of all stages but this.
double work_of_others(const Pipeline& pipeline) {
  double sum = 0;
  for (const Stage& stage : pipeline.stages) sum += stage.work_ns;
  sum -= pipeline.stages[pipeline.slowest].work_ns;
  return sum / static_cast<double>(pipeline.stages.size() - 1);
}

}  // namespace

double Pipeline::bubble() const {
  double sum = 0;
  for (const Stage& stage : stages) sum += stage.idle_ns;
  return sum / (static_cast<double>(stages.size()) * step_ns);
}

bool Pipeline::names_slowest() const {
  return uneven_share() >= kUnevenStages && slowest_steps > 0.5;
}

std::optional<Pipeline> find_pipeline(const JobTrace& job, const Analysis& analysis) {
  if (analysis.steps.empty()) return std::nullopt;
  const std::vector<Chain> chains = Chains(job, analysis).find();
  if (chains.empty()) return std::nullopt;
  Pipeline pipeline;
  pipeline.step_ns = means_of(analysis).step_ns;
  pipeline.stages.resize(chains.front().size());
  for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
    Stage& stage = pipeline.stages[place];
    for (const Chain& chain : chains) stage.ranks.push_back(chain[place]);
    measure(stage, analysis);
  }
  find_slowest(pipeline, analysis);
  return pipeline;
}

std::string stage_label(const Pipeline& pipeline, std::size_t stage, const JobTrace& job) {
  std::vector<std::string> labels;
  for (const std::size_t rank : pipeline.stages[stage].ranks) {
    labels.push_back(label_of(job.ranks[rank].info));
  }
  return fmt::format("stage {} ({})", stage, join_text(labels, ", "));
}

std::optional<Finding> find_bubble(const Pipeline& pipeline, const JobTrace& job,
                                   const Analysis& analysis) {
  if (pipeline.bubble() < kBubbleShare) return std::nullopt;
  Finding finding{.cause = Cause::kPipeline, .share = pipeline.bubble()};
  finding.text = fmt::format(
      "{:.0f} % of each {} of {} is the bubble of a pipeline of {} stages: they wait for their "
      "neighbours.",
      percent(pipeline.bubble()), unit_of(analysis), human_time(pipeline.step_ns),
      pipeline.stages.size());
  if (!pipeline.names_slowest()) {
    finding.text += " No stage is much slower than the others.";
    finding.advice =
        "More microbatches make it smaller, and so do interleaved and zero-bubble schedules.";
    return finding;
  }
  const Stage& slowest = pipeline.stages[pipeline.slowest];
  std::string label = stage_label(pipeline, pipeline.slowest, job);
  finding.text += fmt::format(
      " {:.0f} % is the schedule's. The other {:.0f} % is made by {}: it works {}, the others {} "
      "on average.",
      percent(pipeline.schedule_share()), percent(pipeline.uneven_share()), label,
      human_time(slowest.work_ns), human_time(work_of_others(pipeline)));
  if (slowest.ranks.size() == 1) finding.rank = job.ranks[slowest.ranks.front()].info.rank;
  finding.advice = fmt::format("Move layers from stage {} to other stages.", pipeline.slowest);
  return finding;
}

}  // namespace ronde::report
