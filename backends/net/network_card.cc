#include "backends/net/network_card.h"

#include <fmt/format.h>

#include <fstream>

#include "core/base/os/interfaces.h"

namespace ronde::net {
namespace {

/// Virtual cards tell nothing, or -1.
int megabits_of(const std::string& name, const std::string& folder) {
  std::ifstream file(fmt::format("{}/{}/speed", folder, name));
  int megabits = 0;
  return file >> megabits && megabits > 0 ? megabits : 0;
}

}  // namespace

NetworkCard card_of(const Endpoint& local, const std::string& folder) {
  for (const Interface& each : list_interfaces()) {
    if (!each.address.same_host(local)) continue;
    return {.name = each.name, .megabits = megabits_of(each.name, folder)};
  }
  return {};
}

}  // namespace ronde::net
