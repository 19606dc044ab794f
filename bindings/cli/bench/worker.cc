#include "bindings/cli/bench/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "bindings/cli/bench/contender.h"
#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/timeline.h"

namespace ronde::bench {
namespace {

/// The state that all measurements share.
struct Session {
  const Options& options;
  std::unique_ptr<Team> team;
  std::vector<std::unique_ptr<Peer>> peers;
  std::optional<Report> report;  // at rank 0

  void note(const std::string& text) {
    if (report) report->note(text);
  }
};

TrialSpec trial_spec(Session& session, std::size_t bytes) {
  TrialSpec spec{.kind = session.options.kind,
                 .dtype = session.options.dtype,
                 .op = session.options.op,
                 .bytes = bytes,
                 .rank = session.team->rank(),
                 .size = session.team->size()};
  if (session.options.shared) {
    spec.allocate = [&runtime = session.team->runtime()](std::size_t size) {
      return runtime.groups().allocate(size).value();
    };
  }
  return spec;
}

Trials trials_of(Session& session, const std::vector<std::size_t>& sizes) {
  Trials trials;
  for (const std::size_t bytes : sizes) {
    trials.push_back(std::make_unique<Trial>(trial_spec(session, bytes)));
  }
  return trials;
}

std::size_t bytes_of(const Trials& trials) {
  return std::accumulate(trials.begin(), trials.end(), std::size_t{0},
                         [](std::size_t sum, const auto& trial) { return sum + trial->bytes(); });
}

void add_peers(Session& session, Trials& trials, std::vector<Contender>& contenders) {
  for (const auto& peer : session.peers) {
    if (peer->supports(trials.front()->spec())) contenders.push_back(peer->contender(trials));
  }
}

void add_rows(Session& session, const std::vector<Contender>& contenders,
              const std::vector<Timing>& timings, Trials& trials) {
  const Trial& first = *trials.front();
  const std::size_t bytes = bytes_of(trials);
  double memcpy_us = 0;
  for (std::size_t c = 0; c < contenders.size(); ++c) {
    if (!contenders[c].collective) memcpy_us = timings[c].p50_us;
  }
  for (std::size_t c = 0; c < contenders.size(); ++c) {
    Row row;
    row.system = contenders[c].system;
    row.collective = to_string(session.options.kind);
    row.algorithm = contenders[c].ran;
    row.np = session.team->size();
    row.bytes = bytes;
    row.dtype = to_string(session.options.dtype);
    if (session.options.op != ReduceOp::kSum) row.op = to_string(session.options.op);
    row.p50_us = timings[c].p50_us;
    row.p99_us = timings[c].p99_us;
    row.algbw_gbps = static_cast<double>(bytes) / (1000 * row.p50_us);
    row.busbw_gbps = row.algbw_gbps * (contenders[c].collective ? first.bus_factor() : 1);
    row.of_memcpy = memcpy_us / row.p50_us;
    session.report->add(row);
  }
}

/// Checks, measures, checks again, and reports.
Result<std::vector<Timing>> compete(Session& session, std::vector<Contender>& contenders,
                                    Trials& trials) {
  Team& team = *session.team;
  const Effort effort = effort_for(bytes_of(trials), session.options.repetitions);
  constexpr int kWarmUps = 3;  // caches of the negotiation, pages, connections
  for (int i = 0; i < kWarmUps; ++i) RONDE_RETURN_IF_ERROR(check(team, contenders, trials));
  RONDE_ASSIGN_OR_RETURN(auto timings, measure(team, contenders, effort));
  RONDE_RETURN_IF_ERROR(check(team, contenders, trials));
  if (session.report) add_rows(session, contenders, timings, trials);
  return timings;
}

Status sweep(Session& session) {
  const Calls calls = session.options.calls;
  for (const std::size_t bytes : session.options.sizes) {
    Trials trials = trials_of(session, {bytes});
    std::vector<Contender> contenders;
    if (calls == Calls::kBoth || calls == Calls::kRaw) {
      contenders.push_back(raw_contender(*session.team, trials));
    }
    if (calls == Calls::kBoth || calls == Calls::kNamed) {
      contenders.push_back(named_contender(*session.team, trials));
    }
    if (calls == Calls::kAsync) {
      contenders.push_back(async_contender(*session.team, trials, "engine"));
    }
    add_peers(session, trials, contenders);
    contenders.push_back(memcpy_contender(trials));
    RONDE_RETURN_IF_ERROR(compete(session, contenders, trials).status());
  }
  return {};
}

/// With a timeline, the last contender also competes while it is recorded.
void add_recorded(Session& session, std::vector<Contender>& contenders) {
  if (session.options.timeline.empty()) return;
  contenders.push_back(recorded_contender(*session.team, contenders.back()));
}

/// The cost of recording, as a factor.
void note_recorded(Session& session, const std::vector<Timing>& timings) {
  if (session.options.timeline.empty()) return;
  session.note(fmt::format("recording takes {:.3f} x the time without",
                           timings[1].p50_us / timings[0].p50_us));
}

Status many(Session& session) {
  const Options& options = session.options;
  Trials trials = trials_of(session, std::vector<std::size_t>(options.count, options.bytes));
  std::vector<Contender> contenders;
  contenders.push_back(async_contender(
      *session.team, trials, fmt::format("{} x {}", options.count, human_bytes(options.bytes))));
  add_recorded(session, contenders);
  contenders.push_back(bundle_contender(*session.team, trials));
  add_peers(session, trials, contenders);
  contenders.push_back(memcpy_contender(trials));
  RONDE_ASSIGN_OR_RETURN(const auto timings, compete(session, contenders, trials));
  note_recorded(session, timings);
  return {};
}

std::vector<std::size_t> gradient_bytes(const Options& options) {
  std::vector<std::size_t> sizes;
  for (const Shape& shape : model_shapes(options.model)) {
    sizes.push_back(static_cast<std::size_t>(element_count(shape)) * size_of(options.dtype));
  }
  std::reverse(sizes.begin(), sizes.end());  // backward computes the last layer's first
  return sizes;
}

/// Measures a model's gradients, submitted together, against one buffer of as many bytes.
Status replay(Session& session) {
  Team& team = *session.team;
  const std::vector<std::size_t> sizes = gradient_bytes(session.options);
  Trials gradients = trials_of(session, sizes);
  Trials buffer = trials_of(session, {bytes_of(gradients)});
  std::vector<Contender> fused = {
      async_contender(team, gradients, fmt::format("{} gradients", sizes.size()))};
  add_recorded(session, fused);
  std::vector<Contender> whole = {async_contender(team, buffer, "one buffer")};
  add_peers(session, buffer, whole);
  whole.push_back(memcpy_contender(buffer));
  for (int i = 0; i < 3; ++i) {
    RONDE_RETURN_IF_ERROR(check(team, fused, gradients));
    RONDE_RETURN_IF_ERROR(check(team, whole, buffer));
  }
  std::vector<Contender> all = fused;
  all.insert(all.end(), whole.begin(), whole.end());
  RONDE_ASSIGN_OR_RETURN(const auto timings, measure(team, all, {session.options.repetitions, 1}));
  RONDE_RETURN_IF_ERROR(check(team, fused, gradients));
  if (!session.report) return {};
  add_rows(session, all, timings, buffer);
  session.note(fmt::format("{}: {} gradients take {:.3f} x the time of one buffer of {} bytes",
                           session.options.model, sizes.size(),
                           timings[0].p50_us / timings[fused.size()].p50_us, bytes_of(buffer)));
  note_recorded(session, timings);
  return {};
}

/// The time that a step with as much computing as communication waits for gradients.
Status step(Session& session) {
  Team& team = *session.team;
  Trials trials = trials_of(session, gradient_bytes(session.options));
  std::vector<Contender> alone = {async_contender(team, trials, "no computing")};
  const Effort effort{session.options.repetitions, 1};
  for (int i = 0; i < 3; ++i) RONDE_RETURN_IF_ERROR(check(team, alone, trials));
  RONDE_ASSIGN_OR_RETURN(const auto bare, measure(team, alone, effort));
  const double compute_us = bare.front().p50_us;
  const auto compute = std::chrono::nanoseconds(static_cast<std::int64_t>(1000 * compute_us));
  std::vector<Contender> steps = {step_contender(team, trials, compute, false),
                                  step_contender(team, trials, compute, true)};
  RONDE_RETURN_IF_ERROR(check(team, steps, trials));
  RONDE_ASSIGN_OR_RETURN(const auto timings, measure(team, steps, effort));
  if (!session.report) return {};
  add_rows(session, steps, timings, trials);
  session.note(
      fmt::format("{}: {:.1f} ms of computing and as much communication; exposed "
                  "{:.1f} ms as submitted, {:.1f} ms by priority",
                  session.options.model, compute_us / 1000, (timings[0].p50_us - compute_us) / 1000,
                  (timings[1].p50_us - compute_us) / 1000));
  return {};
}

Status compressed(Session& session) {
  for (const std::size_t bytes : session.options.sizes) {
    const CompressionBench what{session.options.compression, bytes, session.options.repetitions};
    RONDE_RETURN_IF_ERROR(compete_compressed(*session.team, what, [&](const Row& row) {
      if (session.report) session.report->add(row);
    }));
  }
  for (const std::string& line : session.team->group().explain_compression()) session.note(line);
  return {};
}

Status run_mode(Session& session) {
  switch (session.options.mode) {
    case Mode::kSweep:
      return sweep(session);
    case Mode::kMany:
      return many(session);
    case Mode::kReplay:
      return replay(session);
    case Mode::kStep:
      return step(session);
    case Mode::kCompression:
      return compressed(session);
    case Mode::kTune:
      return tune(*session.team, session.options,
                  [&](const std::string& text) { session.note(text); });
  }
  return {};
}

Status open_report(Session& session) {
  Status status;
  if (session.team->rank() == 0) {
    auto report = Report::open(session.options.json, stdout);
    status = report.status();
    if (report.ok()) session.report.emplace(std::move(report).value());
  }
  RONDE_RETURN_IF_ERROR(status);
  const std::string op = session.options.op == ReduceOp::kSum
                             ? std::string()
                             : fmt::format(" by {}", to_string(session.options.op));
  session.note(
      fmt::format("{}{} of {} over {} ranks; median and 99th percentile of at least {} "
                  "repetitions, the slowest rank counts",
                  to_string(session.options.kind), op, to_string(session.options.dtype),
                  session.team->size(), session.options.repetitions));
  return {};
}

}  // namespace

Status run_worker(const Config& config, const Options& options) {
  Session session{.options = options, .team = nullptr, .peers = {}, .report = {}};
  RONDE_ASSIGN_OR_RETURN(session.team, Team::join(config));
  if (!options.timeline.empty()) {
    RONDE_RETURN_IF_ERROR(session.team->runtime().timeline().start(options.timeline));
    session.team->runtime().timeline().pause(true);
  }
  for (const std::string& name : options.peers) {
    RONDE_ASSIGN_OR_RETURN(auto peer, Peer::open(name, *session.team, config));
    session.peers.push_back(std::move(peer));
  }
  RONDE_RETURN_IF_ERROR(open_report(session));
  for (const auto& peer : session.peers) {
    if (!peer->supports(trial_spec(session, 0))) {
      session.note("one peer has no such collective for this type; it is left out");
    }
  }
  RONDE_RETURN_IF_ERROR(run_mode(session));
  session.peers.clear();
  session.team->runtime().shutdown();
  return {};
}

}  // namespace ronde::bench
