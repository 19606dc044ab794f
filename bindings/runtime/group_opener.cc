#include "bindings/runtime/group_opener.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/hierarchical/allreduce.h"
#include "ops/hierarchical/host_layout.h"
#include "ops/selection/selector.h"

namespace ronde {
namespace {

/// One line that holds `text`.
std::string line_of(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text + '\n';
}

/// One rank's view of the candidates: a line for each, empty where it is viable.
std::string viability(const std::vector<Backend*>& candidates, const GroupSpec& spec) {
  std::string lines;
  for (Backend* backend : candidates) lines += line_of(backend->viable(spec).message());
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

std::vector<std::vector<std::string>> split_all(const std::vector<std::string>& answers) {
  std::vector<std::vector<std::string>> views;
  for (const std::string& answer : answers) views.push_back(split_lines(answer));
  return views;
}

/// What came of opening one backend.
struct Attempt {
  Result<std::unique_ptr<BackendGroup>> plane;
  std::string objection;  ///< The same on all ranks; empty: it is open on all.
};

/// Opens, and learns whether the others could.
Result<Attempt> attempt(Backend& backend, const GroupSpec& spec, Exchange& exchange) {
  Attempt made{backend.open(spec, exchange), {}};
  if (spec.abort && spec.abort->aborted()) return spec.abort->status();
  const auto answers =
      exchange.allgather(made.plane.ok() ? "\n" : line_of(made.plane.status().message()));
  if (!answers.ok()) return made.plane.ok() ? answers.status() : made.plane.status();
  made.objection = objection(split_all(*answers), 0, spec);
  return made;
}

void append_objection(std::string& to, const Backend& backend, const std::string& reason) {
  to += fmt::format("{}{}: {}", to.empty() ? "" : "; ", backend.name(), reason);
}

bool wants_levels(const OpenRequest& request, const OpenedGroup& opened, const HostLayout& layout) {
  if (!layout.has_levels() || opened.plane->transport() == nullptr) return false;
  // One order of addition for every backend: inside hosts first.
  return request.deterministic || request.algorithm == kHierarchicalAlgorithm ||
         (request.algorithm.empty() && request.backend == "auto");
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
  const GroupSpec host = group_inside(spec, layout);
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
  options.inner.tuned = request.tuned;
  options.tuned = request.tuned;
  options.inner.rank = host.rank;
  options.inner.size = host.size();
  return OpenedGroup{create_hierarchical_plane(std::move(options)),
                     fmt::format("{}, {} inside hosts", between.name, local.name), true,
                     between.passed_over + local.passed_over};
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
  const auto views = split_all(answers);
  std::string objections;
  std::string failures;
  Status own;  // of the last that could not be opened
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string reason = objection(views, i, spec);
    if (reason.empty()) {
      RONDE_ASSIGN_OR_RETURN(Attempt made, attempt(*list[i], spec, exchange));
      if (made.objection.empty()) {
        return OpenedGroup{std::move(*made.plane), std::string(list[i]->name()),
                           list[i]->native_first(), failures};
      }
      own = made.plane.status();
      reason = std::move(made.objection);
      append_objection(failures, *list[i], reason);
    }
    append_objection(objections, *list[i], reason);
  }
  if (!own.ok()) return own;
  return Status(
      Code::kUnavailable,
      fmt::format("no data plane for --backend {} works on all ranks ({})", wanted, objections));
}

}  // namespace ronde
