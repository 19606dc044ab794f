#include "bindings/runtime/groups/group_factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "bindings/runtime/groups/rank_place.h"
#include "core/base/log.h"

namespace ronde {

GroupSpec GroupFactory::group_spec(std::uint64_t key, const std::vector<int>& ranks) const {
  GroupSpec spec;
  spec.key = key;
  spec.ranks = ranks;
  spec.rank = position(ranks, options_.topology.rank);
  spec.topology = &options_.topology;
  spec.abort = options_.abort;
  return spec;
}

Result<std::unique_ptr<Executor>> GroupFactory::open_executor(const GroupRequest& request,
                                                              const WaitOptions& options) {
  const Config& config = options_.config;
  const std::string& algorithm = request.algorithm.empty() ? config.algorithm : request.algorithm;
  GroupSpec spec = group_spec(request.key, request.ranks);
  spec.deadline = options.deadline;
  const auto exchange = options_.make_exchange(request.key, request.ranks, options);
  const OpenRequest open{options_.registry, config.backend, algorithm, config.deterministic};
  const auto inside = [&](std::uint64_t key, const std::vector<int>& members) {
    return options_.make_exchange(key, members, options);
  };
  RONDE_ASSIGN_OR_RETURN(OpenedGroup opened, open_group(open, spec, *exchange, inside));
  warn_of_fallback(opened);
  ExecutorOptions executor = executor_options(std::move(opened), spec, algorithm);
  executor.set = request.set;
  executor.set_name = request.set_name;
  executor.finds_nonfinite = request.finds_nonfinite;
  return create_executor(std::move(executor));
}

ExecutorOptions GroupFactory::executor_options(OpenedGroup opened, const GroupSpec& spec,
                                               const std::string& algorithm) {
  ExecutorOptions options;
  options.host = std::move(opened.parts);
  options.kernels = options_.kernels;
  options.algorithm = algorithm;
  options.tuned = options_.tuned;
  options.deterministic = options_.config.deterministic;
  const auto sparse = parse_in(kSparsePaths, options_.config.sparse_path, "path");
  options.sparse = sparse.ok() ? *sparse : SparsePath::kAuto;
  options.events = &options_.events;
  options.residuals = options_.residuals;
  options.loss_steps = options_.config.compression_error_steps;
  options.open_device = [this, spec, algorithm](int index) {
    return open_device(index, spec, algorithm);
  };
  if (!options_.config.check_mean.empty()) {
    options.check_mean = options_.check_mean;
    options.check_mean->ranks = spec.ranks;
  }
  if (options_.config.check_sums > 0) {
    options.check_sums = SumCheckOptions{
        .every = options_.config.check_sums, .witness = options_.witness, .ranks = spec.ranks};
  }
  options.on_work = options_.on_work;
  options.on_result = options_.on_result;
  options.rank = spec.rank;
  options.size = spec.size();
  return options;
}

Result<DeviceParts> GroupFactory::open_device(int index, GroupSpec spec,
                                              const std::string& algorithm) {
  WaitOptions wait;
  wait.deadline = now() + options_.config.start_timeout;
  spec.deadline =
      now() + options_.config.start_timeout / 2;  // leaves time to agree on another path
  const auto agreement = options_.make_exchange(device_key(spec.key), spec.ranks, wait);
  const auto inside = [&](std::uint64_t key, const std::vector<int>& members) {
    return options_.make_exchange(device_key(key), members, wait);
  };
  return open_device_parts(options_.devices,
                           {options_.registry, index, options_.config.backend, algorithm, inside},
                           spec, *agreement);
}

/// Warns once, on the first rank of each host, of data planes that failed to open.
void GroupFactory::warn_of_fallback(const OpenedGroup& opened) {
  if (opened.passed_over.empty() || rank_place(options_.topology).local_rank != 0) return;
  {
    const MutexLock lock(mutex_);
    if (!warned_.insert(opened.passed_over).second) return;
  }
  log(LogLevel::kWarning, "data goes over {}, as the better path could not be opened: {}",
      opened.name(), opened.passed_over);
}

Result<std::unique_ptr<RawGroup>> GroupFactory::open(std::vector<int> ranks,
                                                     std::string algorithm) {
  RONDE_RETURN_IF_ERROR(options_.state.usable());
  const int self = options_.topology.rank;
  std::sort(ranks.begin(), ranks.end());
  if (!std::binary_search(ranks.begin(), ranks.end(), self)) {
    return Status(Code::kInvalidArgument, fmt::format("rank {} is not in the group", self));
  }
  WaitOptions options;
  options.deadline = now() + options_.config.start_timeout;
  const std::uint64_t key = options_.keys.next(ranks);
  RONDE_ASSIGN_OR_RETURN(
      auto executor,
      open_executor({.key = key, .ranks = ranks, .algorithm = std::move(algorithm)}, options));
  return std::make_unique<RawGroup>(std::move(executor),
                                    RawGroupOptions{.abort = options_.abort,
                                                    .mark = options_.state.fork_mark(),
                                                    .records = options_.records,
                                                    .ranks = ranks,
                                                    .rank = position(ranks, self),
                                                    .key = key});
}

Result<std::shared_ptr<std::byte>> GroupFactory::allocate(std::size_t bytes) {
  RONDE_RETURN_IF_ERROR(options_.state.usable());
  RONDE_ASSIGN_OR_RETURN(const auto candidates,
                         options_.registry.candidates(options_.config.backend));
  for (Backend* backend : candidates) {
    if (auto memory = backend->allocate(bytes)) return memory;
  }
  if (auto* plain = static_cast<std::byte*>(std::calloc(std::max<std::size_t>(bytes, 1), 1))) {
    return std::shared_ptr<std::byte>(plain, &std::free);
  }
  return Status(Code::kResourceExhausted, fmt::format("no memory for {} bytes", bytes));
}

std::vector<std::string> GroupFactory::describe_backends() const {
  std::vector<int> everyone;
  for (int rank = 0; rank < options_.topology.size(); ++rank) everyone.push_back(rank);
  return options_.registry.describe(group_spec(kGlobalSet, everyone));
}

}  // namespace ronde
