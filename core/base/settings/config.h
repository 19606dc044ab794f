// Every setting of Ronde, in one documented struct. config.cc reads them from the environment.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/log.h"
#include "core/base/status.h"

namespace ronde {

/// All settings with their defaults. The table in config.cc names each field's variable.
struct Config {
  // The job, as its launcher describes it.
  int rank = 0;
  int size = 1;
  int worker = 0;      ///< Number of this worker of an elastic job; 0: no such job.
  int epoch = 0;       ///< Number of the elastic job's epoch; 0: no such job.
  std::string job_id;  ///< Names the job on this host; empty for a single process.
  /// "host:port" where rank 0 listens, or "host:port,port,..."; empty means one host only.
  std::string rendezvous;
  std::string rendezvous_tree;  ///< The meeting places that `ronde run` lays out; may be empty.
  std::string rendezvous_neighbour;  ///< Another host, if the launcher names one; see rendezvous.h.
  std::string secret_file;           ///< 0600 file that holds the job's secret.
  int secret_fd = -1;                ///< Inherited descriptor that the secret is read from.
  bool hands_out_secret = false;     ///< Rank 0 makes a secret, and gives it to ranks of this user.
  /// That other hosts may see too: rank 0 puts that secret there.
  std::vector<std::string> shared_folders;
  std::string encryption = "off";  ///< Between hosts: "off", "on" or "required".
  std::string network_interface;   ///< Names or addresses, as "eth0,eth1", to use between hosts.
  int max_connections = 0;  ///< Data connections with ranks of other hosts; 0 means no limit.
  std::chrono::milliseconds start_timeout{60'000};

  // Data plane.
  std::string backend = "auto";
  std::string algorithm;    ///< Empty lets the selection table decide.
  std::string tuning_file;  ///< Its rows come before that table; all ranks use rank 0's.
  std::string compression;  ///< The codec of allreduces that name none; empty: none.
  std::size_t residual_limit_bytes = 0;     ///< Of all residuals together; 0: no limit.
  std::size_t compression_error_steps = 0;  ///< Steps between measurements of residuals; 0: never.
  std::string single_copy = "auto";         ///< "auto", "always" or "never"; ranks may differ.
  std::string sparse_path = "auto";         ///< Of sparse allreduces, see ops/sparse/choice.h.
  bool deterministic = false;
  /// If ranks' parameters differ: "warn", "error" or "off".
  std::string check_first_step = "warn";
  std::size_t replica_check_steps = 0;  ///< Steps between comparisons of replicas; 0: never.
  std::string replica_check = "warn";   ///< Where they differ: "warn", "fail" or "repair".
  /// If values that were reduced are not finite: "off" (nobody looks), "warn", "fail" or "skip".
  std::string check_nonfinite = "off";
  std::string check_mean;      ///< A part of the names of allreduces; empty: none is compared.
  std::size_t check_sums = 0;  ///< One of so many allreduces is computed once more; 0: none.
  bool checksums = false;      ///< Data is checked where one rank gets it from another.
  std::string inject;          ///< Faults to plant, as `ronde run --inject` sets it; empty: none.
  std::size_t fusion_threshold_bytes = std::size_t{128} << 20;
  std::size_t partition_bytes = std::size_t{16} << 20;  ///< Larger bundles run in pieces; 0: whole.
  std::size_t inline_bytes = std::size_t{1} << 20;  ///< Larger bundles go to the queue's thread.

  // Negotiation and waiting.
  std::size_t cache_capacity = 1024;
  /// Operations between hosts carry their data with the agreement, up to so many bytes of all
  /// ranks together; 0: none does. At most kMaxPayloadBytes.
  std::size_t inline_payload_bytes = 4096;
  /// How long a wait spins before it sleeps. Waits do not spin if ranks outnumber cores, or are on
  /// several hosts.
  std::chrono::microseconds spin{100};

  // Failures.
  std::chrono::milliseconds link_timeout{10'000};
  std::chrono::seconds freeze_timeout{60};  ///< 0 means never.
  /// The longest outage that a connection survives; 0: it does not heal.
  std::chrono::duration<double> reconnect_limit{0};
  std::chrono::seconds stall_warning{60};
  std::chrono::seconds stall_error{0};  ///< 0 means never.

  // Observation.
  LogLevel log_level = LogLevel::kWarning;
  bool nvtx = false;     ///< Events go to NVTX too, whether or not a timeline is written.
  std::string timeline;  ///< Path; rank r writes PATH with .rank<r> before the extension.
  std::size_t timeline_part_bytes = 0;  ///< A trace continues in a new file from there; 0: never.
  int timeline_parts = 8;               ///< This many newest files of a trace are kept.
  /// "USR1" or "USR2" starts and stops the timeline; "off". Not the one that asks for dumps.
  std::string timeline_signal = "off";
  int metrics_port = 0;  ///< Rank r of a host listens at this + r; 0: none does.
  std::string metrics_address = "127.0.0.1";  ///< The address that serves metrics, as a number.
  std::string dump_dir;  ///< Folder for dumps of ranks that fail, stall or get the signal.
  /// "USR1" or "USR2" asks for a dump; "off"; "auto": USR2 under `ronde run`.
  std::string dump_signal = "auto";
};

/// One setting, for `ronde doctor --settings` and the README.
struct SettingInfo {
  std::string_view name;     ///< "RONDE_FUSION_THRESHOLD"
  std::string_view horovod;  ///< HOROVOD_* name that is honoured when the first is unset, or empty.
  std::string_view unit;     ///< "bytes", "ms", "path", ...
  std::string_view meaning;
};

/// All settings in the order in which they are documented.
std::span<const SettingInfo> setting_infos();

/// The value a setting has in `config`, as a user would write it.
std::string setting_value(const Config& config, std::string_view name);

/// Looks a variable up; nothing where it is unset. Tests pass their own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The variables of this process.
Environment process_environment();

/// Reads all settings, and the job from the launcher's variables: RONDE_RANK/RONDE_SIZE,
/// OMPI_COMM_WORLD_*, PMI_*, SLURM_*, RANK/WORLD_SIZE, in this order; see launchers.h.
/// Errors: kInvalidArgument naming the variable, its value and what is allowed.
Result<Config> config_from(const Environment& environment);

/// Sets one field by its variable's name, as if it had been in the environment.
Status set_setting(Config& config, std::string_view name, const std::string& value);

}  // namespace ronde
