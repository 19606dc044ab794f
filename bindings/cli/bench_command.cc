#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/bench/options.h"
#include "bindings/cli/bench/worker.h"
#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "core/base/join_text.h"

namespace ronde {
namespace {

constexpr const char* kBench = "ronde bench";
constexpr const char* kBenchExamples =
    "Examples:\n"
    "  ronde bench allreduce -np 2 --sizes 4,1K,1M,100M --peers mpi,gloo --json rows.jsonl\n"
    "  ronde bench allreduce -np 2 --sizes 4 --mode async\n"
    "  ronde bench allreduce -np 2 --mode many --count 160 --bytes 4K --peers mpi\n"
    "  ronde bench allreduce -np 2 --mode replay --model resnet50\n"
    "  ronde bench allreduce -np 2 --compression int8 --sizes 1M,25M\n"
    "  ronde bench allreduce -np 4 --op adasum --sizes 1M,16M\n"
    "  ronde bench -np 4 --tune tuning.json\n"
    "  ronde run -np 4 -H node1:2,node2:2 -- ronde bench allreduce --sizes 4,1M\n"
    "All take turns (A B C A B C); the slowest rank counts; sums are checked, and a wrong one is "
    "an\n"
    "error. Small operations are timed in bursts of up to 16. Bandwidths are in 10^9 bytes per "
    "second;\n";
constexpr const char* kRoofline =
    "The last column is memcpy's time (all ranks at once, as many bytes) over this one's.\n";

/// The collectives for which `fact` holds.
template <typename Fact>
std::string names_with(Fact fact) {
  std::vector<std::string_view> names;
  for (const CollectiveTraits& row : kCollectives) {
    if (fact(row)) names.push_back(row.name);
  }
  return join_text(names, ", ");
}

std::string footer() {
  const auto with = [](BusFactor bus) {
    return names_with([bus](const CollectiveTraits& row) { return row.bus == bus; });
  };
  return fmt::format("{}bus = alg x 2(n-1)/n for {}, (n-1)/n for {}.\n{}", kBenchExamples,
                     with(BusFactor::kOthersTwice), with(BusFactor::kOthers), kRoofline);
}

/// The options, to be filled in by the command line.
struct BenchRequest {
  bench::Options options;
  bench::OptionTexts texts;
  bool worker = false;
};

void add_options(CLI::App& command, BenchRequest& request) {
  bench::Options& options = request.options;
  bench::OptionTexts& texts = request.texts;
  const auto measured = [](const CollectiveTraits& row) {
    return row.value != Collective::kJoin && !row.has_indices();
  };
  command.add_option("collective", texts.collective, names_with(measured))->capture_default_str();
  command
      .add_option("--np", options.np,
                  "Number of ranks, all on this host (also -np); left out within a job")
      ->capture_default_str();
  command.add_option("--sizes", texts.sizes, "Sizes of the whole tensor, in bytes")
      ->default_str("4,1K,64K,1M,16M");
  command.add_option("--tune", options.tune,
                     "Find the fastest algorithms over --backend (tcp), and write this file for "
                     "RONDE_TUNING_FILE");
  command.add_option("--compression", options.compression,
                     "Measure a codec (int8, topk:ratio=0.001, auto, ...): bytes, times, error");
  command.add_option("--dtype", texts.dtype, "Element type: " + names_in(kDTypes))
      ->capture_default_str();
  command
      .add_option("--op", texts.op,
                  "How reductions combine floating types: sum, average, adasum (allreduce alone)")
      ->capture_default_str();
  command.add_option("--algorithm", options.algorithm,
                     "Ronde's algorithm; default: the selector's choice");
  command.add_option("--backend", options.backend, "Ronde's data plane; default: auto");
  command.add_option("--peers", texts.peers, "Also measure these libraries: mpi,gloo");
  command
      .add_option("--mode", texts.mode,
                  "What to measure: both, raw, named, async, many, replay, step")
      ->capture_default_str();
  command
      .add_option("--repetitions", options.repetitions, "Samples of each measurement, at least 20")
      ->capture_default_str();
  command.add_option("--count", options.count, "Mode many: number of tensors submitted together")
      ->capture_default_str();
  command.add_option("--bytes", texts.bytes, "Mode many: bytes of each tensor")
      ->capture_default_str();
  command.add_option("--model", options.model, "Modes replay and step: the model")
      ->capture_default_str();
  command.add_option("--timeline", options.timeline,
                     "Modes many and replay: write a trace, and measure the cost of recording it");
  command.add_flag("--shared", options.shared, "Use buffers in shared memory");
  command.add_option("--json", options.json, "Write a line of JSON for each row to this file");
  command.add_flag("--worker", request.worker, "")->group("");  // a rank that start_workers made
  command.add_option("--left-out", texts.left_out, "")->group("");  // peers that are not there
}

/// The job that the environment describes, with what the command line adds.
Result<Config> worker_config(const bench::Options& options) {
  RONDE_ASSIGN_OR_RETURN(Config config, config_from(process_environment()));
  const std::pair<const char*, std::string> given[] = {{"RONDE_BACKEND", options.backend},
                                                       {"RONDE_ALGORITHM", options.algorithm}};
  // Its algorithms are what a tuning is about; shared memory has collectives of its own.
  if (!options.tune.empty()) RONDE_RETURN_IF_ERROR(set_setting(config, "RONDE_BACKEND", "tcp"));
  for (const auto& [name, value] : given) {
    if (!value.empty()) RONDE_RETURN_IF_ERROR(set_setting(config, name, value));
  }
  return config;
}

int work(const bench::Options& options) {
  auto config = worker_config(options);
  const Status status = config.ok() ? bench::run_worker(*config, options) : config.status();
  if (status.ok()) return 0;
  const int rank = config.ok() ? config->rank : 0;
  fmt::print(stderr, "ronde bench: rank {}: {}\n", rank, status.to_string());
  return 1;
}

/// The files that the ranks will write.
Status check_outputs(const bench::Options& options) {
  RONDE_RETURN_IF_ERROR(check_output_file("--json", options.json));
  RONDE_RETURN_IF_ERROR(check_output_file("--tune", options.tune));
  return check_output_file("--timeline", options.timeline);
}

/// Says which peers are not there, and returns their names.
std::string leave_out_peers(const bench::Options& options, const Config& config) {
  std::vector<std::string> names;
  for (const bench::MissingPeer& peer : bench::missing_peers(options.peers, config)) {
    fmt::print(stderr, "ronde bench: peer {} is left out: {}\n", peer.name, peer.why);
    names.push_back(peer.name);
  }
  return join_text(names, ",");
}

int start_workers(const bench::Options& options, const Config& config, const Arguments& arguments) {
  std::vector<std::string> command = {value_or_exit(kBench, own_program())};
  exit_if_failed(kBench, check_outputs(options));
  const std::string left_out = leave_out_peers(options, config);
  const bool mpi = std::ranges::count(options.peers, "mpi") >
                   std::ranges::count(bench::split_list(left_out), "mpi");
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.emplace_back("--worker");
  if (!left_out.empty()) command.push_back("--left-out=" + left_out);
  return value_or_exit(kBench,
                       bench::spawn_ranks(command, options.np, mpi || options.backend == "mpi"));
}

/// Measures as one rank of a job that somebody has started: `ronde run -H a,b -- ronde bench`.
int work_in_job(const bench::Options& options, const Config& config, bool has_np) {
  if (has_np && options.np != config.size) {
    exit_if_failed(kBench,
                   {Code::kInvalidArgument,
                    fmt::format("--np={}, but this is a rank of a job of {}; leave --np out",
                                options.np, config.size)});
  }
  if (config.rank == 0) exit_if_failed(kBench, check_outputs(options));
  return work(options);
}

}  // namespace

CLI::App* add_bench_command(CLI::App& app, const Arguments& arguments) {
  auto request = std::make_shared<BenchRequest>();
  CLI::App* command = app.add_subcommand("bench", "Measure collectives, also of other libraries");
  command->footer(footer());
  add_options(*command, *request);
  command->callback([request, arguments, command] {
    const auto options = value_or_exit(kBench, bench::complete(request->options, request->texts));
    if (request->worker) exit_with(work(options));
    const Config config = value_or_exit(kBench, worker_config(options));
    exit_with(config.size > 1 ? work_in_job(options, config, command->count("--np") > 0)
                              : start_workers(options, config, arguments));
  });
  return command;
}

}  // namespace ronde
