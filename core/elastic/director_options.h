// The options of an elastic job that decide on its workers and epochs.
#pragma once

#include <chrono>

#include "core/elastic/host_table.h"

namespace ronde::elastic {

/// The job as its user wants it.
struct DirectorOptions {
  int min_workers = 1;
  int max_workers = 0;   ///< 0: as many as there are slots.
  int reset_limit = -1;  ///< Epochs after the first; -1: any number.
  HostPauses pauses{};   ///< Of hosts whose workers failed.
  /// As Horovod: the epoch ends when hosts come, and the next one waits until their workers have
  /// started. Else it ends when these workers are ready.
  bool await_new_hosts = false;
  std::chrono::milliseconds elastic_timeout{600'000};  ///< With fewer than min_workers.
  std::chrono::milliseconds start_timeout{60'000};     ///< For workers of the first epoch.
};

}  // namespace ronde::elastic
