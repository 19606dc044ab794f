#include "bindings/runtime/groups/group_opener.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/wire_codec.h"
#include "ops/hierarchical/host_layout.h"
#include "ops/selection/path.h"

namespace ronde {
namespace {

/// Each candidate's reason why this rank cannot use it; empty where it can.
using View = std::vector<std::string>;

/// Why a candidate cannot serve some rank, or empty.
std::string objection(const std::vector<View>& views, std::size_t candidate,
                      const GroupSpec& spec) {
  for (std::size_t r = 0; r < views.size(); ++r) {
    const std::string reason =
        candidate < views[r].size() ? views[r][candidate] : "not known to this rank";
    if (!reason.empty()) return fmt::format("rank {}: {}", spec.ranks[r], reason);
  }
  return {};
}

/// The views of all ranks. A rank without candidates takes part all the same, with its error, so
/// that the others learn of it.
Result<std::vector<View>> share_views(const Result<std::vector<Backend*>>& candidates,
                                      const GroupSpec& spec, Exchange& exchange) {
  View mine;
  if (!candidates.ok()) mine.push_back(candidates.status().message());
  for (Backend* backend : candidates.ok() ? *candidates : std::vector<Backend*>()) {
    mine.push_back(backend->viable(spec).message());
  }
  RONDE_ASSIGN_OR_RETURN(const auto answers, exchange.allgather(encode_wire<std::string>(mine)));
  RONDE_RETURN_IF_ERROR(candidates.status());
  std::vector<View> views;
  for (const std::string& answer : answers) {
    RONDE_ASSIGN_OR_RETURN(views.emplace_back(),
                           decode_wire<View>(as_bytes(answer), "list of backends"));
  }
  return views;
}

/// The outcome of opening one backend.
struct Attempt {
  Result<std::unique_ptr<Communicator>> communicator;
  std::string objection;  ///< The same on all ranks; empty: it is open on all.
};

/// Opens a communicator, and agrees with the other ranks if all could.
Result<Attempt> attempt(Backend& backend, const GroupSpec& spec, Exchange& exchange) {
  Attempt made{backend.open(spec, exchange), {}};
  if (spec.abort && spec.abort->aborted()) return spec.abort->status();
  auto objection = first_objection(exchange, spec.ranks, made.communicator.status());
  if (!objection.ok()) {
    return made.communicator.ok() ? objection.status() : made.communicator.status();
  }
  made.objection = std::move(*objection);
  return made;
}

void append_objection(std::string& to, const Backend& backend, const std::string& reason) {
  to += fmt::format("{}{}: {}", to.empty() ? "" : "; ", backend.name(), reason);
  std::ranges::replace(to, '\n', ' ');
}

/// True if Ronde chooses the backend for host memory: for "auto", or if the user names one for
/// devices.
bool is_automatic(const OpenRequest& request) {
  return request.backend == "auto" || request.registry.serves(request.backend, DeviceKind::kCuda);
}

bool opens_in_levels(const OpenRequest& request, const OpenedGroup& opened,
                     const HostLayout& layout) {
  return wants_levels({.has_levels = layout.has_levels(),
                       .has_transport = opened.parts.whole->transport() != nullptr,
                       .automatic = is_automatic(request),
                       .deterministic = request.deterministic,
                       .algorithm = request.algorithm});
}

}  // namespace

std::string OpenedGroup::name() const {
  if (parts.whole == nullptr) return "self";
  const std::string& whole = parts.whole->traits().name;
  if (!parts.layout.has_levels()) return whole;
  return fmt::format("{}, {} inside hosts", whole,
                     parts.inside == nullptr ? "self" : parts.inside->traits().name);
}

Result<OpenedGroup> open_group(const OpenRequest& request, const GroupSpec& spec,
                               Exchange& exchange, const ExchangeInside& inside) {
  RONDE_ASSIGN_OR_RETURN(OpenedGroup opened,
                         open_communicator(request.registry, request.backend, spec, exchange));
  if (spec.size() == 1) return opened;
  HostLayout layout = host_layout(spec);
  if (!opens_in_levels(request, opened, layout)) return opened;
  const GroupSpec host = group_inside(spec, layout);
  const auto inside_exchange = inside(host.key, host.ranks);
  RONDE_ASSIGN_OR_RETURN(OpenedGroup local,
                         open_communicator(request.registry, "auto", host, *inside_exchange));
  opened.parts.inside = std::move(local.parts.whole);
  opened.parts.layout = std::move(layout);
  opened.passed_over += local.passed_over;
  return opened;
}

MakeExchange exchanges_over(Engine& engine) {
  return [&engine](std::uint64_t key, const std::vector<int>& ranks, const WaitOptions& options) {
    return std::make_unique<EngineExchange>(engine, key, ranks, options);
  };
}

Result<std::vector<std::string>> EngineExchange::allgather(std::string_view mine) {
  return engine_.exchange(key_, round_++, ranks_, mine, options_);
}

Result<OpenedGroup> open_communicator(const Registry& registry, const std::string& wanted,
                                      const GroupSpec& spec, Exchange& exchange) {
  if (spec.size() == 1) return OpenedGroup{};
  const auto candidates = registry.candidates(wanted);
  RONDE_ASSIGN_OR_RETURN(const auto views, share_views(candidates, spec, exchange));
  const std::vector<Backend*>& list = *candidates;
  std::string objections;
  std::string failures;
  Status own;  // of the last that could not be opened
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string reason = objection(views, i, spec);
    if (reason.empty()) {
      RONDE_ASSIGN_OR_RETURN(Attempt made, attempt(*list[i], spec, exchange));
      if (made.objection.empty()) {
        return OpenedGroup{{.whole = std::move(*made.communicator)}, failures};
      }
      own = made.communicator.status();
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
