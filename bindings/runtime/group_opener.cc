#include "bindings/runtime/group_opener.h"

#include <fmt/format.h>

#include <utility>

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

}  // namespace

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
