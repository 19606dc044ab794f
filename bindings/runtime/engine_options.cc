#include "bindings/runtime/engine_options.h"

#include "bindings/runtime/rank_place.h"

namespace ronde {
namespace {

/// If ranks outnumber cores, a spinning rank keeps the rank that it waits for from running.
/// Frames of other hosts come through a thread of this process, which needs a core too.
std::chrono::microseconds spin_of(const Config& config, const Topology& topology, unsigned cores) {
  const bool crowded = static_cast<unsigned>(rank_place(topology).local_size) > cores;
  const bool spreads = topology.host_count() > 1;
  return crowded || spreads ? std::chrono::microseconds(0) : config.spin;
}

}  // namespace

EngineOptions engine_options(const Config& config, const Topology& topology, unsigned cores) {
  EngineOptions options;
  options.fusion_threshold_bytes = config.fusion_threshold_bytes;
  options.partition_bytes = config.partition_bytes;
  options.inline_bytes = config.inline_bytes;
  options.cache_capacity = config.cache_capacity;
  // An algorithm that is asked for runs all operations.
  options.payload_bytes = config.algorithm.empty() ? config.inline_payload_bytes : 0;
  options.spin = spin_of(config, topology, cores);
  options.stall_warning = config.stall_warning;
  options.stall_error = config.stall_error;
  return options;
}

}  // namespace ronde
