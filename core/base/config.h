// Every setting of Ronde, in one documented struct. The environment is read in config.cc alone.
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
  std::string rendezvous_tree;       ///< Who meets where, as `ronde run` lays it out; may be empty.
  std::string rendezvous_neighbour;  ///< Another host, if the launcher names one; see rendezvous.h.
  std::string secret_file;           ///< 0600 file that holds the job's secret.
  int secret_fd = -1;                ///< Inherited descriptor that the secret is read from.
  bool hands_out_secret = false;     ///< Rank 0 makes a secret, and gives it to ranks of this user.
  std::vector<std::string> shared_folders;  ///< Other hosts may see the same; for that secret.
  std::string encryption = "off";           ///< Between hosts: "off", "on" or "required".
  std::string network_interface;  ///< Names or addresses, as "eth0,eth1", to use between hosts.
  int max_connections = 0;        ///< Data connections with ranks of other hosts; 0 means no limit.
  std::chrono::milliseconds start_timeout{60'000};

  // Data plane.
  std::string backend = "auto";
  std::string algorithm;                    ///< Empty lets the selection table decide.
  std::string tuning_file;                  ///< Rows that come before that table; rank 0's count.
  std::string compression;                  ///< Of allreduces that name none; empty means none.
  std::size_t residual_limit_bytes = 0;     ///< Of error feedback; 0 means no limit.
  std::size_t compression_error_steps = 0;  ///< Between measurements of it; 0 never measures it.
  std::string single_copy = "auto";         ///< "auto", "always" or "never"; ranks may differ.
  bool deterministic = false;
  std::string check_first_step = "warn";  ///< Of ranks whose parameters differ; "error" or "off".
  std::size_t fusion_threshold_bytes = std::size_t{128} << 20;
  std::size_t partition_bytes = std::size_t{16} << 20;  ///< Larger bundles run in pieces; 0: whole.
  std::size_t inline_bytes = std::size_t{1} << 20;  ///< Larger bundles go to the queue's thread.

  // Negotiation and waiting.
  std::size_t cache_capacity = 1024;
  /// Operations between hosts carry their data with the agreement, up to so many bytes of all
  /// ranks together; 0: none does. At most kMaxPayloadBytes.
  std::size_t inline_payload_bytes = 4096;
  /// Before a wait sleeps; 0 where ranks exceed cores or are on several hosts.
  std::chrono::microseconds spin{100};

  // Failures.
  std::chrono::milliseconds link_timeout{10'000};
  std::chrono::seconds freeze_timeout{60};           ///< 0 means never.
  std::chrono::duration<double> reconnect_limit{0};  ///< Of an outage; 0: connections do not heal.
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
  std::string metrics_address = "127.0.0.1";  ///< Where, as a number.
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
