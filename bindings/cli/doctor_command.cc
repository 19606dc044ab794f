#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "backends/builtin.h"
#include "backends/net/factory.h"
#include "bindings/cli/bench/options.h"
#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/doctor.h"
#include "bindings/cli/launch/this_host.h"
#include "bindings/runtime/groups/tuning.h"
#include "bindings/runtime/job_settings.h"
#include "core/base/json.h"
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

constexpr std::uint64_t kSmallShm = std::uint64_t{256} << 20;
constexpr rlim_t kFewFiles = 1024;

/// One fact, such as "open files: 1024 (may be raised to 4096)". `bites`: too low for a usual job;
/// the text then has a remedy.
struct Limit {
  std::string text;
  bool bites = false;
};

std::string limit_text(rlim_t value, bool bytes) {
  if (value == RLIM_INFINITY) return "unlimited";
  return bytes ? bytes_text(value) : fmt::to_string(value);
}

Limit shared_memory() {
  struct statvfs info {};
  if (::statvfs("/dev/shm", &info) != 0) {
    return {"/dev/shm: there is none; ranks of this host use slower ways", true};
  }
  const std::uint64_t total = std::uint64_t{info.f_blocks} * info.f_frsize;
  const std::uint64_t left = std::uint64_t{info.f_bavail} * info.f_frsize;
  const bool small = left < kSmallShm;
  return {fmt::format("/dev/shm: {} free of {}{}", bytes_text(left), bytes_text(total),
                      small ? "; small: in a container, raise it with --shm-size" : ""),
          small};
}

Limit resource(const char* name, __rlimit_resource_t which, bool bytes, rlim_t enough) {
  rlimit limit{};
  ::getrlimit(which, &limit);
  const bool bites = limit.rlim_cur < enough;
  return {fmt::format("{}: {} (may be raised to {}){}", name, limit_text(limit.rlim_cur, bytes),
                      limit_text(limit.rlim_max, bytes), bites ? "; few: see ulimit" : ""),
          bites};
}

Limit peer_memory() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  file >> scope;
  if (scope == 0 || ::geteuid() == 0) {
    return {"copying from and to peers' memory (process_vm_readv): not restricted", false};
  }
  return {fmt::format("copying from and to peers' memory (process_vm_readv): restricted by "
                      "kernel.yama.ptrace_scope = {}; large tensors are staged instead",
                      scope),
          false};
}

Limit cores() {
  const cpu_set_t allowed = allowed_cpus();
  const std::size_t nodes = numa_nodes(allowed).size();
  return {fmt::format("cores: {} of {} may be used, on {} NUMA node{}", CPU_COUNT(&allowed),
                      ::sysconf(_SC_NPROCESSORS_ONLN), nodes, nodes == 1 ? "" : "s"),
          false};
}

/// Shared memory, open files, locked memory, reading of peers' memory, cores.
std::vector<Limit> machine_limits() {
  return {shared_memory(), resource("open files", RLIMIT_NOFILE, false, kFewFiles),
          resource("locked memory", RLIMIT_MEMLOCK, true, 0), peer_memory(), cores()};
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{} {}", std::round(value * 10) / 10, kUnits[unit]);
}

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

/// A setting with its default and its value now.
struct SettingRow {
  SettingInfo info;
  std::string initial;
  std::string now;
};

std::vector<SettingRow> all_settings(const Config& config) {
  const Config defaults;
  std::vector<SettingRow> rows;
  for (const SettingInfo& info : setting_infos()) {
    rows.push_back({info, setting_value(defaults, info.name), setting_value(config, info.name)});
  }
  for (const ProgramSetting& setting : program_settings()) {
    const std::string initial(setting.otherwise);
    const auto now = process_environment()(std::string(setting.info.name));
    rows.push_back({setting.info, initial, now.value_or(initial)});
  }
  return rows;
}

void print_settings(const Config& config) {
  for (const auto& [info, initial, now] : all_settings(config)) {
    fmt::print("{} ({})\n    {}\n    default \"{}\", now \"{}\"{}\n", info.name, info.unit,
               info.meaning, initial, now,
               info.horovod.empty() ? "" : fmt::format("; {} is honoured too", info.horovod));
  }
}

/// docs/troubleshooting.md lists the keys of JSON; they stay as they are.
std::string settings_json(const Config& config) {
  Json settings = Json::array();
  for (const auto& [info, initial, now] : all_settings(config)) {
    settings.push_back({{"name", info.name},
                        {"unit", info.unit},
                        {"default", initial},
                        {"value", now},
                        {"meaning", info.meaning},
                        {"horovod", info.horovod}});
  }
  return json_document({{"version", 1}, {"kind", "settings"}, {"settings", settings}});
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
  return value_or_exit("ronde doctor",
                       text.ok() ? parse_tuning(*text, config.tuning_file) : text.status());
}

/// The findings of `ronde doctor` about this machine. Lines read "shm: usable".
struct MachineFacts {
  std::vector<std::string> data_planes;  ///< Between ranks of this host, best first.
  std::vector<std::string> gpus;         ///< The accelerator, and what moves data between devices.
  std::vector<std::string> network;
  std::string nvtx;
  std::vector<Limit> limits;
  std::string selection_title;
  std::vector<std::string> selection;
  std::vector<std::string> paths;
};

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
  RONDE_ASSIGN_OR_RETURN(const Collective kind,
                         bench::parse_data_collective(text.substr(0, comma)));
  std::size_t bytes = 0;
  const std::string size = comma == std::string::npos ? "" : text.substr(comma + 1);
  constexpr std::size_t kMost = std::size_t{1} << 50;  // CLI11 caps larger numbers, and takes "-5"
  try {
    std::string number = size;
    CLI::AsSizeValue in_bytes(false);
    if (number.empty() || number.front() == '-' || !in_bytes(number).empty() ||
        !CLI::detail::lexical_cast(number, bytes) || bytes > kMost) {
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

/// "shm: usable" as a name, if it can be used, and the text after the name.
Json plane_of(const std::string& line) {
  const std::size_t colon = line.find(": ");
  const std::string text = colon == std::string::npos ? line : line.substr(colon + 2);
  return {{"name", line.substr(0, colon)}, {"usable", text.starts_with("usable")}, {"text", text}};
}

Json planes_of(const std::vector<std::string>& lines) {
  Json list = Json::array();
  for (const std::string& line : lines) list.push_back(plane_of(line));
  return list;
}

std::string machine_json(const MachineFacts& facts) {
  Json limits = Json::array();
  for (const Limit& limit : facts.limits) {
    limits.push_back({{"text", limit.text}, {"bites", limit.bites}});
  }
  return json_document({{"version", 1},
                        {"kind", "doctor"},
                        {"ronde", RONDE_VERSION},
                        {"host", host_name()},
                        {"compiler", std::string(RONDE_COMPILER) + " " + __VERSION__},
                        {"arithmetic", kernels_target()},
                        {"data_planes", planes_of(facts.data_planes)},
                        {"gpu", planes_of(facts.gpus)},
                        {"network", facts.network},
                        {"nvtx", facts.nvtx},
                        {"limits", limits},
                        {"selection", facts.selection},
                        {"paths", facts.paths}});
}

void examine(bool settings_only, bool json) {
  const Config config = value_or_exit("ronde doctor", checked_config());
  if (settings_only && json) return fmt::print("{}", settings_json(config));
  if (settings_only) return print_settings(config);
  const MachineFacts facts = examined(config);
  if (json) return fmt::print("{}", machine_json(facts));
  print_machine(facts);
}

void examine_codecs() {
  constexpr const char* kWho = "ronde doctor --compression";
  exit_if_failed(kWho, examine_compression(value_or_exit(kWho, checked_config())));
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

/// Ends the program if the job is not well.
void probe(const std::string& job, bool must_run) {
  const Status status = probe_job(job, must_run);
  if (status.ok()) return;
  fmt::print(stderr, "ronde doctor --probe: {}\n", status.message());
  exit_with(1);
}

struct DoctorRequest {
  bool settings = false;
  bool json = false;
  bool compression = false;
  std::string codecs_form = "text";
  std::string job;
  std::string folder;
  std::string probe_state = "ready";
  std::string question;
  int ranks = 2;
};

/// An option whose value may be left out.
CLI::Option* add_optional(CLI::App& command, const std::string& name, std::string& value,
                          const std::string& type, const std::string& help) {
  return command.add_option(name, value, help)->expected(0, 1)->type_name(type);
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("doctor", "Show what can run on this machine, and why the rest cannot");
  auto request = std::make_shared<DoctorRequest>();
  command->add_flag("--settings", request->settings,
                    "List all settings with unit, default, current value and meaning");
  CLI::Option* json = command->add_flag(
      "--json", request->json, "Print JSON, for programs: alone, with --settings or with --job");
  CLI::Option* compression = command->add_flag(
      "--compression", request->compression,
      "Measure codecs, and show the choice of --compression auto; in a job (ronde run "
      "... -- ronde doctor --compression) measure its links too");
  CLI::Option* codecs = add_optional(
      *command, "--codecs", request->codecs_form, "[FORM]",
      "List the codecs of --compression with their parameters. FORM: text; markdown, the table of "
      "docs/compression.md; pyi, the types of Python's classes");
  codecs->check(CLI::IsMember({"text", "markdown", "pyi"}));
  command->add_flag_callback(
      "--horovod",
      [] {
        fmt::print("{}", horovod_names_as_markdown());
        exit_with(0);
      },
      "List what becomes of each flag of horovodrun and each HOROVOD_ variable");
  CLI::Option* job =
      add_optional(*command, "--job", request->job, "[JOB]",
                   "Show the state of a running job: pending operations, missing ranks, the "
                   "stacks of threads. JOB: the beginning of its id, the pid of a rank, or "
                   "of the launcher of an elastic job; not needed if only one job runs");
  command
      ->add_option("--output", request->folder,
                   "With --job: also write each rank's dump to this folder, which is made")
      ->needs(job);
  CLI::Option* probing = add_optional(
      *command, "--probe", request->probe_state, "[STATE]",
      "With --job: print nothing and end with status 0 if the ranks here are well; else print one "
      "line and end with 1. STATE: ready, a rank must be in a job; alive, none need be");
  probing->check(CLI::IsMember({"ready", "alive"}))->needs(job);
  CLI::Option* choose =
      command->add_option("--choose", request->question,
                          "Name the algorithm and the communicators for one operation, such as "
                          "allreduce,16M");
  choose->type_name("COLLECTIVE,BYTES");
  command->add_option("--ranks", request->ranks, "With --choose: the number of ranks (2)")
      ->needs(choose)
      ->check(CLI::PositiveNumber);
  json->excludes(codecs, choose, compression, probing);
  command->callback([request, codecs, job, probing, choose] {
    if (codecs->count() != 0) return print_codecs(request->codecs_form);
    if (choose->count() != 0) {
      return exit_if_failed("ronde doctor --choose",
                            explain_algorithm(request->question, request->ranks));
    }
    if (request->compression) return examine_codecs();
    if (job->count() == 0) return examine(request->settings, request->json);
    if (probing->count() != 0) return probe(request->job, request->probe_state != "alive");
    exit_if_failed("ronde doctor --job", examine_job(request->job, request->folder, request->json));
  });
}

}  // namespace ronde
