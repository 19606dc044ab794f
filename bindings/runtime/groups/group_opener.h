// Opens the communicators of a group: the ranks agree on the best backend that works for all of
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "bindings/runtime/groups/agreements.h"
#include "core/engine/engine.h"
#include "core/ports/backend.h"
#include "ops/execution/host_communicators.h"
#include "ops/selection/selector.h"

namespace ronde {

/// Exchange over the engine's control frames. Each call is one round of `key`.
class EngineExchange final : public Exchange {
 public:
  EngineExchange(Engine& engine, std::uint64_t key, std::vector<int> ranks, WaitOptions options)
      : engine_(engine), key_(key), ranks_(std::move(ranks)), options_(std::move(options)) {}

  Result<std::vector<std::string>> allgather(std::string_view mine) override;

 private:
  Engine& engine_;
  const std::uint64_t key_;
  const std::vector<int> ranks_;
  const WaitOptions options_;
  std::uint32_t round_ = 0;
};

/// Makes exchanges over `engine`, which outlives them.
MakeExchange exchanges_over(Engine& engine);

/// The communicators of a group for host memory; none for a group of one rank.
struct OpenedGroup {
  HostParts parts;
  /// "shm", "tcp, shm inside hosts".
  [[nodiscard]] std::string name() const;
  std::string passed_over = {};  ///< Better ones that could not be opened, and why; or empty.
};

/// The settings by which a group is opened.
struct OpenRequest {
  const Registry& registry;
  std::string backend;    ///< "auto" or a name.
  std::string algorithm;  ///< The user's override, or empty.
  bool deterministic = false;
};

/// As open_communicator. Also opens the best one inside this host, over `inside`, if wants_levels()
/// of ops/selection/path.h is true.
Result<OpenedGroup> open_group(const OpenRequest& request, const GroupSpec& spec,
                               Exchange& exchange, const ExchangeInside& inside);

/// Opens `spec` with the first backend of `wanted` ("auto" or a name) that every rank can use and
/// that opens on every rank. Collective over the group. Errors: kUnavailable naming the rank and
/// the reason, the same on all; where this rank could not open the last one, that one's own.
Result<OpenedGroup> open_communicator(const Registry& registry, const std::string& wanted,
                                      const GroupSpec& spec, Exchange& exchange);

}  // namespace ronde
