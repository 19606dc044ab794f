#include "timeline/report/verdict.h"

#include <doctest/doctest.h>

#include "tests/timeline/report/synthetic.h"
#include "timeline/report/job_trace.h"

namespace ronde::report {
namespace {

bool says(const Finding& finding, const char* words) {
  return finding.text.find(words) != std::string::npos;
}

/// Blocked by data on the wire for most of each step.
Plan bound_by_wire() {
  Plan plan;
  plan.compute_us = 2000;
  plan.wire_us = 3000;
  return plan;
}

}  // namespace

TEST_CASE("verdict: a rank that computes longer is named, with the part that is slow") {
  Plan plan;
  plan.bundles = 8;
  plan.wire_us = 50;
  plan.late_us = [](int rank, int) { return rank == 2 ? 4000.0 : 0.0; };
  const Read read = read_plan(plan);
  const Finding* straggler = finding_of(read, Cause::kStraggler);
  REQUIRE(straggler != nullptr);
  CHECK(straggler->rank == 2);
  CHECK(says(*straggler, "Rank 2 (node1)"));
  CHECK(says(*straggler, "backward"));
  CHECK(straggler->share > 0.2);
  CHECK(straggler->share < 0.4);
}

TEST_CASE("verdict: a rank whose loader is slow is late before its first operation") {
  Plan plan;
  plan.early_us = [](int rank, int) { return rank == 1 ? 3000.0 : 0.0; };
  const Read read = read_plan(plan);
  const Finding* straggler = finding_of(read, Cause::kStraggler);
  REQUIRE(straggler != nullptr);
  CHECK(straggler->rank == 1);
  CHECK(says(*straggler, "loading data"));
}

TEST_CASE("verdict: a rank that is late now and then is named as that") {
  Plan plan;
  plan.steps = 100;
  plan.early_us = [](int rank, int step) { return rank == 3 && step % 10 == 5 ? 30'000.0 : 0.0; };
  const Read read = read_plan(plan);
  const Finding* straggler = finding_of(read, Cause::kStraggler);
  REQUIRE(straggler != nullptr);
  CHECK(straggler->rank == 3);
  CHECK(says(*straggler, "now and then"));
}

TEST_CASE("verdict: a connection that did not work comes first") {
  Read read = read_plan(bound_by_wire());
  RankTrace& rank = read.job.ranks[1];
  const std::int64_t whole = rank.last_ns - rank.first_ns;
  const auto outage = [&](int from, int to) {
    return NamedSpan{.name = read.job.names.number_of("OUTAGE rank 2"),
                     .start_ns = rank.first_ns + whole * from / 100,
                     .end_ns = rank.first_ns + whole * to / 100};
  };
  rank.outages = {outage(10, 30)};
  read.job.ranks[2].outages = {outage(20, 35), outage(40, 45)};  // 30 % are covered
  const Finding first = find_causes(read.job, read.analysis).front();
  CHECK(first.cause == Cause::kOutage);
  CHECK(says(first, "30 % of the trace"));
  CHECK(says(first, "between rank 1 and rank 2."));
  rank.outages.clear();
  read.job.ranks[2].outages = {outage(0, 0)};
  CHECK(find_causes(read.job, read.analysis).front().cause == Cause::kWire);
}

TEST_CASE("verdict: one hiccup blames nobody") {
  Plan plan;
  plan.early_us = [](int rank, int step) { return rank == 3 && step == 20 ? 90'000.0 : 0.0; };
  CHECK(finding_of(read_plan(plan), Cause::kStraggler) == nullptr);
}

TEST_CASE("verdict: many small operations, each waited for, are tiny tensors") {
  Plan plan;
  plan.bundles = 40;
  plan.tensors = 1;
  plan.bundle_bytes = 4096;
  plan.wire_us = 60;
  plan.one_by_one = true;
  const Read read = read_plan(plan);
  const Finding* tiny = finding_of(read, Cause::kTinyTensors);
  REQUIRE(tiny != nullptr);
  CHECK(tiny->advice.find("allreduce_async") != std::string::npos);
}

TEST_CASE("verdict: data that moves while nobody computes is said to, with its bandwidth") {
  const Read read = read_plan(bound_by_wire());
  const Finding* wire = finding_of(read, Cause::kWire);
  REQUIRE(wire != nullptr);
  CHECK(says(*wire, "ALLREDUCE ring over tcp"));
  CHECK(says(*wire, "MB/s of bus bandwidth"));
  CHECK(says(*wire, "The longest bundle is \"allreduce.layer"));
  CHECK(wire->advice.find("compression") != std::string::npos);
  CHECK(finding_of(read, Cause::kStraggler) == nullptr);
}

TEST_CASE("verdict: slow agreement and copies have findings of their own") {
  Plan slow;
  slow.agree_us = 4000;
  CHECK(finding_of(read_plan(slow), Cause::kNegotiation) != nullptr);
  Plan packed;
  packed.pack_us = 2000;
  CHECK(finding_of(read_plan(packed), Cause::kPack) != nullptr);
}

TEST_CASE("verdict: ranks that are late in turn are uneven, and none is named") {
  Plan plan;
  plan.jitter = 0.3;
  const Read read = read_plan(plan);
  const Finding* found = finding_of(read, Cause::kUneven);
  REQUIRE(found != nullptr);
  CHECK(says(*found, "late in turn: rank "));
  CHECK(says(*found, "% of the steps, rank "));
  CHECK(says(*found, "They wait most in \"allreduce.layer"));
  CHECK(found->advice.find("give all ranks as much work") != std::string::npos);
  CHECK(finding_of(read, Cause::kStraggler) == nullptr);
}

TEST_CASE("verdict: the largest waiting is told, also where it is small or cores are short") {
  Plan plan;
  plan.jitter = 0.05;  // about 5 % of each step
  CHECK(finding_of(read_plan(plan), Cause::kUneven) != nullptr);
  plan.jitter = 0.3;
  plan.cores = 4;
  plan.no_core_us = [](int, int) { return 5000.0; };
  const Read disturbed = read_plan(plan);
  CHECK(finding_of(disturbed, Cause::kContention) != nullptr);
  CHECK(finding_of(disturbed, Cause::kUneven) != nullptr);
}

TEST_CASE("verdict: a span that all ranks spend much of each step in is named, with its share") {
  Plan plan;
  plan.compute_us = 20'000;
  plan.load_us = 9000;
  const Read read = read_plan(plan);
  const Finding* found = finding_of(read, Cause::kSpan);
  REQUIRE(found != nullptr);
  CHECK(says(*found, "9.00 ms of 2"));
  CHECK(says(*found, "of each step is your span \"load\" (on all ranks)"));
  CHECK(found->share > 0.4);
  CHECK(found->share < 0.5);
  CHECK(found->advice.find("prefetch") != std::string::npos);
  plan.load_us = 500;  // the rest is in no span
  const Read rest = read_plan(plan);
  REQUIRE(finding_of(rest, Cause::kSpan) != nullptr);
  CHECK(says(*finding_of(rest, Cause::kSpan), "outside Ronde and in no span"));
}

TEST_CASE("verdict: ranks that hardly use their cores are not said to lack them") {
  Plan plan;
  plan.jitter = 0.3;
  plan.cores = 2;
  plan.cpu_cores = 0.03;  // 6 % of the machine
  const Read idle = read_plan(plan);
  CHECK(finding_of(idle, Cause::kContention) == nullptr);
  CHECK(finding_of(idle, Cause::kUneven) != nullptr);
  plan.no_core_us = [](int, int) { return 5000.0; };
  const Read disturbed = read_plan(plan);
  const Finding* found = finding_of(disturbed, Cause::kContention);
  REQUIRE(found != nullptr);
  CHECK(says(*found, "Other work takes the cores of node1, of which the ranks use 6 %"));
  plan.cpu_cores = 0.5;
  const Read busy = read_plan(plan);
  REQUIRE(finding_of(busy, Cause::kContention) != nullptr);
  CHECK(says(*finding_of(busy, Cause::kContention), "4 ranks share the 2 cores"));
}

TEST_CASE("verdict: each one has a remedy") {
  Plan straggling;
  straggling.early_us = [](int rank, int) { return rank == 1 ? 3000.0 : 0.0; };
  Plan tiny;
  tiny.bundles = 40;
  tiny.tensors = 1;
  tiny.bundle_bytes = 4096;
  tiny.one_by_one = true;
  Plan slow;
  slow.agree_us = 4000;
  slow.pack_us = 2000;
  for (const Plan& plan : {Plan(), straggling, tiny, slow, bound_by_wire()}) {
    for (const Finding& finding : read_plan(plan).findings) {
      CAPTURE(finding.text);
      CHECK(!finding.advice.empty());
    }
  }
}

TEST_CASE("verdict: ranks that outnumber their cores and wait for one another are told so") {
  Plan plan;
  plan.jitter = 0.3;
  plan.cores = 2;
  const Read crowded = read_plan(plan);
  REQUIRE(finding_of(crowded, Cause::kContention) != nullptr);
  CHECK(finding_of(crowded, Cause::kContention)->text.starts_with("4 ranks share the 2 cores"));
  CHECK(finding_of(crowded, Cause::kUneven) == nullptr);
  plan.cores = 4;
  CHECK(finding_of(read_plan(plan), Cause::kContention) == nullptr);
  plan.cores = 2;
  plan.jitter = 0.005;  // they do not wait
  CHECK(finding_of(read_plan(plan), Cause::kContention) == nullptr);
}

TEST_CASE("verdict: ranks that get no core are told so though none of them waits for another") {
  Plan plan;
  plan.cores = 2;
  plan.no_core_us = [](int, int) { return 5000.0; };
  const Read crowded = read_plan(plan);
  const Finding* found = finding_of(crowded, Cause::kContention);
  REQUIRE(found != nullptr);
  CHECK(says(*found, "4 ranks share the 2 cores of node1"));
  CHECK(says(*found, "without a core for 5.0"));
  CHECK(finding_of(crowded, Cause::kNone) == nullptr);
  plan.cores = 4;
  const Read disturbed = read_plan(plan);
  REQUIRE(finding_of(disturbed, Cause::kContention) != nullptr);
  CHECK(says(*finding_of(disturbed, Cause::kContention), "Other work takes the cores of node1"));
  plan.no_core_us = [](int, int) { return 100.0; };
  CHECK(finding_of(read_plan(plan), Cause::kContention) == nullptr);
}

TEST_CASE("verdict: a rank that is late because it got no core is not the one to blame") {
  Plan plan;
  plan.cores = 8;
  const auto held_up = [](int rank, int) { return rank == 2 ? 6000.0 : 0.0; };
  plan.early_us = held_up;
  CHECK(finding_of(read_plan(plan), Cause::kStraggler) != nullptr);
  plan.no_core_us = held_up;
  for (const Finding& finding : read_plan(plan).findings) CHECK(finding.rank == -1);
  plan.early_us = [](int rank, int) { return rank == 2 ? 12'000.0 : 0.0; };
  const Read read = read_plan(plan);  // half of it is its own doing
  REQUIRE(finding_of(read, Cause::kStraggler) != nullptr);
  CHECK(finding_of(read, Cause::kStraggler)->rank == 2);
}

TEST_CASE("verdict: of 100 planted stragglers 98 are named right") {
  int right = 0;
  std::mt19937 random(7);
  for (unsigned seed = 0; seed < 100; ++seed) {
    Plan plan;
    plan.seed = seed;
    plan.ranks = 2 + static_cast<int>(random() % 7);
    plan.jitter = 0.01 + 0.04 * static_cast<double>(random() % 100) / 100;
    const int slow = static_cast<int>(random() % static_cast<unsigned>(plan.ranks));
    const double extra = 1500.0 + static_cast<double>(random() % 5000);
    plan.early_us = [=](int rank, int) { return rank == slow ? extra : 0.0; };
    const Read read = read_plan(plan);
    const Finding* found = finding_of(read, Cause::kStraggler);
    if (found != nullptr && found->rank == slow) ++right;
  }
  CHECK(right >= 98);
}

TEST_CASE("verdict: in 100 clean runs nobody is blamed, however noisy") {
  std::mt19937 random(11);
  for (unsigned seed = 0; seed < 100; ++seed) {
    Plan plan;
    plan.seed = 1000 + seed;
    plan.ranks = 2 + static_cast<int>(random() % 7);
    plan.steps = 10 + static_cast<int>(random() % 60);
    plan.jitter = 0.005 + 0.3 * static_cast<double>(random() % 100) / 100;
    CAPTURE(seed);
    for (const Finding& finding : read_plan(plan).findings) CHECK(finding.rank == -1);
  }
}

TEST_CASE("verdict: without marked steps a straggler is found all the same") {
  Plan plan;
  plan.step_marks = false;
  plan.late_us = [](int rank, int) { return rank == 0 ? 5000.0 : 0.0; };
  const Read read = read_plan(plan);
  const Finding* straggler = finding_of(read, Cause::kStraggler);
  REQUIRE(straggler != nullptr);
  CHECK(straggler->rank == 0);
}

TEST_CASE("verdict: a quiet run says that nothing stands out") {
  Plan plan;
  plan.jitter = 0.005;
  const Read read = read_plan(plan);
  REQUIRE(read.findings.size() == 1);
  CHECK(read.findings[0].cause == Cause::kNone);
}

TEST_CASE("verdict: one rank alone has nobody to wait for") {
  Plan plan;
  plan.ranks = 1;
  CHECK(finding_of(read_plan(plan), Cause::kStraggler) == nullptr);
}

TEST_CASE("verdict: an operation that one rank never submitted names that rank") {
  const ScratchFolder scratch;
  Plan plan;
  auto texts = traces_of(plan);
  const std::string stuck =
      ",\n{\"ph\":\"B\",\"pid\":RANK,\"tid\":2,\"ts\":9000000,\"name\":\"NEGOTIATE_ALLREDUCE\"}\n]"
      "\n";
  Read read;
  std::vector<std::string> paths;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (rank != 1) {
      std::string event = stuck;
      event.replace(event.find("RANK"), 4, std::to_string(rank));
      texts[rank].replace(texts[rank].size() - 3, 3, event);
    }
    paths.push_back(scratch.write(std::to_string(rank), texts[rank]));
  }
  auto job = load_traces(paths);
  REQUIRE(job.ok());
  read.job = std::move(*job);
  read.findings = find_causes(read.job, analyze(read.job));
  REQUIRE(read.findings.front().cause == Cause::kUnfinished);
  CHECK(read.findings.front().rank == 1);
  CHECK(says(read.findings.front(), "allreduce.layer0"));
}

TEST_CASE(
    "verdict: what a killed rank's trace does not end is not charged to those that ended it") {
  const ScratchFolder scratch;
  Plan plan;
  plan.ranks = 3;
  plan.steps = 20;
  std::vector<std::string> traces = traces_of(plan);
  std::string& killed = traces[1];
  killed.resize(killed.find(",\n", killed.rfind("NEGOTIATE_")));
  killed += "\n]\n";
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    paths.push_back(scratch.write(std::to_string(i), traces[i]));
  }
  const auto job = load_traces(paths);
  REQUIRE(job.ok());
  for (const Finding& finding : find_causes(*job, analyze(*job))) {
    CHECK(finding.cause != Cause::kUnfinished);
  }
  REQUIRE(job->notes.size() == 1);
  CHECK(job->notes[0].find("The trace of rank 1 ends before") != std::string::npos);
}

}  // namespace ronde::report
