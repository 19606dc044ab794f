// Ranks as threads on pretended hosts, with a device each and a fake NCCL.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ops/hierarchical/host_layout.h"
#include "tests/backends/nccl/nccl_fixture.h"
#include "tests/support/local_exchange.h"

namespace ronde::test {

/// A job of `host_of_rank` (numbers from 0, by lowest rank), and what the ranks of each host agree
/// over.
struct JobOnHosts {
  explicit JobOnHosts(const std::vector<int>& host_of_rank)
      : job(static_cast<int>(host_of_rank.size()), host_of_rank),
        hub(create_local_hub(job.size(), host_of_rank)) {
    for (int host = 0; host <= *std::max_element(host_of_rank.begin(), host_of_rank.end());
         ++host) {
      const auto size = std::count(host_of_rank.begin(), host_of_rank.end(), host);
      rounds.push_back(std::make_shared<ExchangeRounds>(static_cast<int>(size)));
    }
  }

  /// The exchange of the ranks on one host; one for each of them.
  [[nodiscard]] std::unique_ptr<Exchange> inside(const HostLayout& layout) const {
    return std::make_unique<LocalExchange>(rounds[layout.host], layout.local);
  }
  /// NCCL's fake among the ranks on one host.
  [[nodiscard]] Result<std::unique_ptr<Communicator>> open_inside(
      const GroupSpec& group, std::shared_ptr<DeviceOps> device) const {
    const HostLayout layout = host_layout(group);
    const auto exchange = inside(layout);
    return open_fake(group_inside(group, layout), *exchange, std::move(device));
  }

  const LocalJob job;
  const std::shared_ptr<LocalHub> hub;
  std::vector<std::shared_ptr<ExchangeRounds>> rounds;
};

}  // namespace ronde::test
