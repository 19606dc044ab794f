#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "backends/builtin.h"
#include "backends/net/factory.h"
#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/doctor.h"
#include "bindings/cli/launch/this_host.h"
#include "bindings/runtime/groups/tuning.h"
#include "bindings/runtime/job_settings.h"
#include "core/base/os/interfaces.h"
#include "core/base/settings/config.h"
#include "core/base/settings/horovod_names.h"
#include "core/base/settings/setting_names.h"
#include "ops/compression/describe.h"
#include "ops/hierarchical/communicator.h"
#include "ops/kernels/factory.h"
#include "ops/selection/path.h"
#include "ops/selection/selector.h"
#include "timeline/recording/nvtx_sink.h"

namespace ronde {
namespace {

/// The settings of the environment. Errors: of a setting that is not valid.
Result<Config> checked_config() {
  RONDE_ASSIGN_OR_RETURN(Config config, config_from(process_environment()));
  RONDE_RETURN_IF_ERROR(check_named_choices(config));
  return config;
}

/// Two ranks of this host: what a small job here would ask for.
std::vector<std::string> describe_backends(const Config& config, DeviceKind memory) {
  Registry registry;
  register_builtin_backends(registry, {.config = config, .kernels = create_kernels(), .tcp = {}});
  const PeerInfo peer{0, host_name(), ::getpid()};
  const Topology topology{0, {peer, peer}};
  GroupSpec group;
  group.ranks = {0, 1};
  group.topology = &topology;
  group.abort = std::make_shared<AbortToken>();
  return registry.describe(group, memory);
}

std::string describe_devices(Accelerator& accelerator, int count) {
  std::string text = fmt::format("usable, {} device{}", count, count == 1 ? "" : "s");
  for (int i = 0; i < count; ++i) {
    const auto one = accelerator.describe(i);
    text += fmt::format("\n    cuda:{} {}", i, one.ok() ? *one : one.status().message());
  }
  return text;
}

std::string describe_cuda() {
  const auto accelerator = load_builtin_accelerator();
  if (!accelerator.ok()) return accelerator.status().message();
  const auto count = (*accelerator)->count();
  return count.ok() ? describe_devices(**accelerator, *count) : count.status().message();
}

/// The accelerator, and what moves data between its devices.
std::vector<std::string> describe_gpus(const Config& config) {
  std::vector<std::string> lines = describe_backends(config, DeviceKind::kCuda);
  lines.insert(lines.begin(), "cuda: " + describe_cuda());
  return lines;
}

std::string describe_nvtx(const Config& config) {
  if (!nvtx_missing().empty()) return fmt::format("not built: {}", nvtx_missing());
  return config.nvtx ? "on (RONDE_NVTX)" : "off; RONDE_NVTX=1 switches them on";
}

void print_lines(const char* title, const std::vector<std::string>& lines) {
  fmt::print("\n{}\n", title);
  for (const std::string& line : lines) fmt::print("  {}\n", line);
}

void print_setting(const SettingInfo& info, std::string_view initial, std::string_view now) {
  fmt::print("{} ({})\n    {}\n    default \"{}\", now \"{}\"{}\n", info.name, info.unit,
             info.meaning, initial, now,
             info.horovod.empty() ? "" : fmt::format("; {} is honoured too", info.horovod));
}

void print_settings(const Config& config) {
  const Config defaults;
  for (const SettingInfo& info : setting_infos()) {
    print_setting(info, setting_value(defaults, info.name), setting_value(config, info.name));
  }
  for (const ProgramSetting& setting : program_settings()) {
    const auto now = process_environment()(std::string(setting.info.name));
    print_setting(setting.info, setting.otherwise, now.value_or(std::string(setting.otherwise)));
  }
}

/// The interfaces for data between hosts, and whether it is encrypted.
std::vector<std::string> describe_network(const Config& config) {
  const std::string encryption = describe_encryption(config);
  const std::string& chosen = config.network_interface;
  if (chosen.empty()) {
    return {"by the interface that leads to rank 0's host (RONDE_NETWORK_INTERFACE overrides)",
            "there are: " + describe_interfaces(), encryption};
  }
  std::vector<std::string> lines;
  for (const std::string& one : listed_interfaces(chosen)) {
    const auto address = chosen_address(one);
    lines.push_back(address.ok()
                        ? fmt::format("by {}, from {} (RONDE_NETWORK_INTERFACE)", one, *address)
                        : address.status().message());
  }
  if (lines.size() > 1) {
    lines.emplace_back(
        "data is spread over these by what each achieves; the first is also for control");
  }
  lines.push_back(encryption);
  return lines;
}

void print_limits(const std::vector<Limit>& limits) {
  fmt::print("\nLimits of this machine\n");
  for (const Limit& limit : limits) {
    fmt::print("{} {}\n", limit.bites ? "!" : " ", limit.text);
  }
}

std::vector<SelectionRow> tuned_rows(const Config& config) {
  if (config.tuning_file.empty()) return {};
  const auto text = read_tuning(config.tuning_file);
  const auto rows = text.ok() ? parse_tuning(*text, config.tuning_file) : text.status();
  if (!rows.ok()) exit_usage("ronde doctor", rows.status());
  return *rows;
}

MachineFacts examined(const Config& config) {
  const std::vector<SelectionRow> tuned = tuned_rows(config);
  const std::string origin =
      tuned.empty() ? "Ronde's own table" : fmt::format("{}, then Ronde's own", config.tuning_file);
  return {.data_planes = describe_backends(config, DeviceKind::kCpu),
          .gpus = describe_gpus(config),
          .network = describe_network(config),
          .nvtx = describe_nvtx(config),
          .limits = machine_limits(),
          .selection_title =
              fmt::format("Which algorithm runs, by {} (RONDE_ALGORITHM overrides)", origin),
          .selection = describe_selection(tuned),
          .paths = describe_paths()};
}

/// An operation for the selector: "allreduce,16M".
struct SelectionQuestion {
  Collective kind = Collective::kAllreduce;
  std::size_t bytes = 0;
};

Result<SelectionQuestion> parse_question(const std::string& text) {
  const std::size_t comma = text.find(',');
  RONDE_ASSIGN_OR_RETURN(const Collective kind, parse_data_collective(text.substr(0, comma)));
  std::size_t bytes = 0;
  const std::string size = comma == std::string::npos ? "" : text.substr(comma + 1);
  try {
    std::string number = size;
    CLI::AsSizeValue in_bytes(false);
    if (number.empty() || number.front() == '-' || !in_bytes(number).empty() ||
        !CLI::detail::lexical_cast(number, bytes)) {
      throw CLI::ValidationError(size);
    }
  } catch (const CLI::Error&) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("size '{}' is not a number of bytes; allowed: such as 4096, 64K, 16M", size));
  }
  return SelectionQuestion{kind, bytes};
}

bool is_compressed(const SelectionQuestion& asked, const Config& config) {
  return asked.kind == Collective::kAllreduce && !config.compression.empty() &&
         config.compression != "none";
}

/// The communicators that serve an operation between ranks of one host.
std::string compose_inside(const SelectionQuestion& asked, const Config& config,
                           std::string_view algorithm) {
  const bool shm = config.backend == "auto" || config.backend == "shm" || config.backend == "nccl";
  const bool overridden = find_algorithm(asked.kind, config.algorithm) != nullptr;
  const bool native = shm && (!overridden || config.deterministic);
  const bool compressed = is_compressed(asked, config);
  return describe_composition(
      {.facts = static_cast<Facts>(Fact::kTransport) | when(native, Fact::kNative) |
                when(native, Fact::kPrefersNative) | when(compressed, Fact::kCompressed),
       .whole = shm ? "shm" : std::string_view(config.backend),
       .algorithm = native ? std::string_view() : algorithm,
       .codec = config.compression});
}

/// The composition between hosts that hold one rank each, or several.
std::string compose_between(const SelectionQuestion& asked, const Config& config,
                            std::string_view algorithm, bool several) {
  const bool automatic = config.backend == "auto" || config.backend == "nccl";
  const bool levels = several && goes_in_levels(asked.kind, config.deterministic) &&
                      wants_levels({.has_levels = true,
                                    .has_transport = true,
                                    .automatic = automatic,
                                    .deterministic = config.deterministic,
                                    .algorithm = config.algorithm});
  const bool compressed = is_compressed(asked, config);
  return describe_composition({.facts = static_cast<Facts>(Fact::kTransport) |
                                        when(levels, Fact::kLevels) |
                                        when(compressed, Fact::kCompressed),
                               .inside = levels ? "shm" : "",
                               .whole = automatic ? "tcp" : std::string_view(config.backend),
                               .algorithm = algorithm,
                               .codec = config.compression});
}

/// Prints the algorithm that the selector chooses where work goes over a transport, and the
/// communicators that serve it, by where the ranks are.
Status explain_algorithm(const std::string& text, int ranks) {
  RONDE_ASSIGN_OR_RETURN(const SelectionQuestion asked, parse_question(text));
  RONDE_ASSIGN_OR_RETURN(const Config config, checked_config());
  RONDE_ASSIGN_OR_RETURN(
      const Algorithm* chosen,
      select_algorithm(asked.kind, asked.bytes, ranks, config.algorithm, tuned_rows(config)));
  fmt::print("{} of {} bytes among {} ranks over a transport: {}\n", to_string(asked.kind),
             asked.bytes, ranks, chosen->name);
  fmt::print("  on one host: {}\n", compose_inside(asked, config, chosen->name));
  fmt::print("  on hosts of one rank: {}\n", compose_between(asked, config, chosen->name, false));
  fmt::print("  on hosts of several ranks: {}\n",
             compose_between(asked, config, chosen->name, true));
  return {};
}

void print_machine(const MachineFacts& facts) {
  fmt::print("ronde {} on {}, built with {} {}; arithmetic with {}\n", RONDE_VERSION, host_name(),
             RONDE_COMPILER, __VERSION__, kernels_target());
  print_lines("Data planes between ranks of this host, best first", facts.data_planes);
  print_lines("Tensors in GPU memory", facts.gpus);
  print_lines("Data between hosts", facts.network);
  print_lines("NVTX marks for profilers", {facts.nvtx});
  print_limits(facts.limits);
  print_lines(facts.selection_title.c_str(), facts.selection);
  print_lines("How tensors are moved (the first line that fits)", facts.paths);
}

void examine(bool settings_only, bool json) {
  const auto config = checked_config();
  if (!config.ok()) exit_usage("ronde doctor", config.status());
  if (settings_only && json) return fmt::print("{}", settings_json(*config));
  if (settings_only) return print_settings(*config);
  const MachineFacts facts = examined(*config);
  if (json) return fmt::print("{}", machine_json(facts));
  print_machine(facts);
}

void examine_codecs() {
  const auto config = checked_config();
  const Status status = config.ok() ? examine_compression(*config) : config.status();
  if (!status.ok()) exit_usage("ronde doctor --compression", status);
}

/// Prints the registry of codecs in one of its forms.
void print_codecs(const std::string& form) {
  if (form == "markdown") return fmt::print("{}", codecs_as_markdown());
  if (form == "pyi") return fmt::print("{}", python_types());
  fmt::print(
      "What --compression, RONDE_COMPRESSION and compression= take: none, or\n"
      "NAME[:PARAMETER=VALUE,...]\n\n{}",
      codecs_as_text());
}

/// `--probe [STATE]`, for the probes of a cluster. STATE: ready, alive.
CLI::Option* add_probe_option(CLI::App& command, CLI::Option* job, std::string& state) {
  CLI::Option* option = command.add_option(
      "--probe", state,
      "With --job: print nothing and end with status 0 if the ranks here are well; else print one "
      "line and end with 1. STATE: ready, a rank must be in a job; alive, none need be");
  option->expected(0, 1)->type_name("[STATE]")->check(CLI::IsMember({"ready", "alive"}));
  return option->needs(job);
}

/// Ends the program if the job is not well.
void probe(const std::string& job, bool must_run) {
  const Status status = probe_job(job, must_run);
  if (status.ok()) return;
  fmt::print(stderr, "ronde doctor --probe: {}\n", status.message());
  exit_with(1);
}

/// `--codecs [FORM]`.
CLI::Option* add_codecs_option(CLI::App& command, std::string& form) {
  CLI::Option* option = command.add_option(
      "--codecs", form,
      "List the codecs of --compression with their parameters. FORM: text; markdown, the table of "
      "docs/compression.md; pyi, the types of Python's classes");
  option->expected(0, 1)->type_name("[FORM]")->check(CLI::IsMember({"text", "markdown", "pyi"}));
  return option;
}

void add_horovod_option(CLI::App& command) {
  command.add_flag_callback(
      "--horovod",
      [] {
        fmt::print("{}", horovod_names_as_markdown());
        exit_with(0);
      },
      "List what becomes of each flag of horovodrun and each HOROVOD_ variable");
}

/// `--job [JOB]`.
CLI::Option* add_job_option(CLI::App& command, std::string& job) {
  CLI::Option* option =
      command.add_option("--job", job,
                         "Show the state of a running job: pending operations, missing ranks, the "
                         "stacks of threads. JOB: the beginning of its id, the pid of a rank, or "
                         "of the launcher of an elastic job; not needed if only one job runs");
  option->expected(0, 1)->type_name("[JOB]");
  return option;
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("doctor", "Show what can run on this machine, and why the rest cannot");
  auto settings = std::make_shared<bool>(false);
  command->add_flag("--settings", *settings,
                    "List all settings with unit, default, current value and meaning");
  auto json = std::make_shared<bool>(false);
  CLI::Option* as_json = command->add_flag(
      "--json", *json, "Print JSON, for programs: alone, with --settings or with --job");
  auto compression = std::make_shared<bool>(false);
  CLI::Option* measuring = command->add_flag(
      "--compression", *compression,
      "Measure codecs, and show the choice of --compression auto; in a job (ronde run "
      "... -- ronde doctor --compression) measure its links too");
  auto form = std::make_shared<std::string>("text");
  CLI::Option* codecs = add_codecs_option(*command, *form);
  add_horovod_option(*command);
  auto job = std::make_shared<std::string>();
  CLI::Option* attach = add_job_option(*command, *job);
  auto folder = std::make_shared<std::string>();
  command
      ->add_option("--output", *folder,
                   "With --job: also write each rank's dump to this folder, which is made")
      ->needs(attach);
  auto state = std::make_shared<std::string>("ready");
  CLI::Option* probing = add_probe_option(*command, attach, *state);
  auto choose = std::make_shared<std::string>();
  CLI::Option* question =
      command->add_option("--choose", *choose,
                          "Name the algorithm and the communicators for one operation, such as "
                          "allreduce,16M");
  question->type_name("COLLECTIVE,BYTES");
  auto ranks = std::make_shared<int>(2);
  command->add_option("--ranks", *ranks, "With --choose: the number of ranks (2)")
      ->needs(question)
      ->check(CLI::PositiveNumber);
  as_json->excludes(codecs, question, measuring, probing);
  command->callback([settings, json, compression, form, codecs, job, folder, attach, choose,
                     question, ranks, state, probing] {
    if (codecs->count() != 0) return print_codecs(*form);
    if (question->count() != 0) {
      const Status answered = explain_algorithm(*choose, *ranks);
      if (!answered.ok()) exit_usage("ronde doctor --choose", answered);
      return;
    }
    if (*compression) return examine_codecs();
    if (attach->count() == 0) return examine(*settings, *json);
    if (probing->count() != 0) return probe(*job, *state != "alive");
    const Status status = examine_job(*job, *folder, *json);
    if (!status.ok()) exit_usage("ronde doctor --job", status);
  });
}

}  // namespace ronde
