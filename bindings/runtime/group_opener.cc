#include "bindings/runtime/group_opener.h"

#include <fmt/format.h>

#include <utility>

#include "ops/allreduce/hierarchical.h"
#include "ops/selector.h"

namespace ronde {
namespace {

/// One rank's view of the candidates: a line for each, empty where it is viable.
std::string viability(const std::vector<Backend*>& candidates, const GroupSpec& spec) {
  std::string lines;
  for (Backend* backend : candidates) {
    std::string reason = backend->viable(spec).message();
    for (char& c : reason) c = c == '\n' ? ' ' : c;
    lines += reason + '\n';
  }
  return lines;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

/// Why a candidate cannot serve some rank, or empty.
std::string objection(const std::vector<std::vector<std::string>>& views, std::size_t candidate,
                      const GroupSpec& spec) {
  for (std::size_t r = 0; r < views.size(); ++r) {
    const std::string reason =
        candidate < views[r].size() ? views[r][candidate] : std::string("not known to this rank");
    if (!reason.empty()) return fmt::format("rank {}: {}", spec.ranks[r], reason);
  }
  return {};
}

constexpr std::uint64_t kInsideKeys = std::uint64_t{1} << 61;

bool wants_levels(const OpenRequest& request, const OpenedGroup& opened, const HostLayout& layout) {
  if (!layout.has_levels() || opened.plane->transport() == nullptr) return false;
  // One order of addition for every backend: inside hosts first.
  return request.deterministic || request.algorithm == kHierarchicalAlgorithm ||
         (request.algorithm.empty() && request.backend == "auto");
}

/// The ranks of `spec` on this host, as a group of their own.
GroupSpec inside_of(const GroupSpec& spec, const HostLayout& layout) {
  GroupSpec inside = spec;
  inside.key = spec.key | kInsideKeys;
  inside.ranks.clear();
  inside.ranks.reserve(layout.hosts[layout.host].size());
  for (const int rank : layout.hosts[layout.host]) {
    inside.ranks.push_back(spec.ranks[static_cast<std::size_t>(rank)]);
  }
  inside.rank = layout.local;
  return inside;
}

}  // namespace

Result<OpenedGroup> open_planes(const OpenRequest& request, const GroupSpec& spec,
                                Exchange& exchange,
                                const std::function<std::unique_ptr<Exchange>(
                                    std::uint64_t key, const std::vector<int>& ranks)>& inside) {
  RONDE_ASSIGN_OR_RETURN(OpenedGroup between,
                         open_data_plane(request.registry, request.backend, spec, exchange));
  if (spec.size() == 1) return between;
  const HostLayout layout = host_layout(spec);
  if (!wants_levels(request, between, layout)) return between;
  const GroupSpec host = inside_of(spec, layout);
  const auto inside_exchange = inside(host.key, host.ranks);
  RONDE_ASSIGN_OR_RETURN(OpenedGroup local,
                         open_data_plane(request.registry, "auto", host, *inside_exchange));
  HierarchyOptions options;
  options.layout = layout;
  options.kernels = request.kernels;
  options.deterministic = request.deterministic;
  options.outer = std::move(between.plane);
  options.inner.plane = std::move(local.plane);
  options.inner.plane_name = local.name;
  options.inner.native_first = local.native_first;
  options.inner.kernels = request.kernels;
  options.inner.deterministic = request.deterministic;
  options.inner.rank = host.rank;
  options.inner.size = host.size();
  return OpenedGroup{create_hierarchical_plane(std::move(options)),
                     fmt::format("{}, {} inside hosts", between.name, local.name), true};
}

Result<std::vector<std::string>> EngineExchange::allgather(std::string_view mine) {
  return engine_.exchange(key_, round_++, ranks_, mine, options_);
}

Result<OpenedGroup> open_data_plane(const Registry& registry, const std::string& wanted,
                                    const GroupSpec& spec, Exchange& exchange) {
  if (spec.size() == 1) return OpenedGroup{};
  auto candidates = registry.candidates(wanted);
  const std::vector<Backend*> list = candidates.ok() ? *candidates : std::vector<Backend*>();
  // A rank without candidates takes part all the same, so that the others learn of it.
  const std::string mine =
      candidates.ok() ? viability(list, spec) : candidates.status().message() + '\n';
  RONDE_ASSIGN_OR_RETURN(const auto answers, exchange.allgather(mine));
  RONDE_RETURN_IF_ERROR(candidates.status());
  std::vector<std::vector<std::string>> views;
  for (const std::string& answer : answers) views.push_back(split_lines(answer));
  std::string objections;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string reason = objection(views, i, spec);
    if (reason.empty()) {
      RONDE_ASSIGN_OR_RETURN(auto plane, list[i]->open(spec, exchange));
      return OpenedGroup{std::move(plane), std::string(list[i]->name()), list[i]->native_first()};
    }
    objections += fmt::format("{}{}: {}", objections.empty() ? "" : "; ", list[i]->name(), reason);
  }
  return Status(
      Code::kUnavailable,
      fmt::format("no data plane for --backend {} works on all ranks ({})", wanted, objections));
}

}  // namespace ronde
