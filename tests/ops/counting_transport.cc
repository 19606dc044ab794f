#include "tests/ops/counting_transport.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>

#include "tests/support/local/transport.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {

void WireLog::sent(int from, int to, int step) {
  MutexLock lock(mutex_);
  steps_[{from, to}].push_back(step);
}

int WireLog::received(int from, int to) {
  MutexLock lock(mutex_);
  std::deque<int>& steps = steps_[{from, to}];
  const int step = steps.front();
  steps.pop_front();
  return step;
}

Result<TransferId> CountingTransport::send(int to, std::span<const std::byte> data) {
  ++traffic_.messages;
  traffic_.bytes += data.size();
  log_.sent(rank(), to, traffic_.steps);
  return inner_.send(to, data);
}

Result<TransferId> CountingTransport::recv(int from, std::span<std::byte> data) {
  auto id = inner_.recv(from, data);
  if (id.ok()) receives_[id.value()] = from;
  return id;
}

Status CountingTransport::wait(TransferId id, const AbortToken& abort) {
  RONDE_RETURN_IF_ERROR(inner_.wait(id, abort));
  const auto receive = receives_.find(id);
  if (receive == receives_.end()) return {};
  traffic_.steps = std::max(traffic_.steps, log_.received(receive->second, rank()) + 1);
  receives_.erase(receive);
  return {};
}

std::vector<Traffic> count_traffic(int ranks,
                                   const std::function<void(Transport&, Scratch&)>& body) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const auto boxes = std::make_shared<LocalMailboxes>(all);
  WireLog log;
  std::vector<Traffic> traffic(all.size());
  run_ranks(ranks, [&](int rank) {
    LocalTransport inner(boxes, rank, nullptr);
    CountingTransport transport(inner, log);
    Scratch scratch;
    body(transport, scratch);
    traffic[static_cast<std::size_t>(rank)] = transport.traffic();
  });
  return traffic;
}

std::size_t total_bytes(const std::vector<Traffic>& traffic) {
  return std::accumulate(traffic.begin(), traffic.end(), std::size_t{0},
                         [](std::size_t sum, const Traffic& one) { return sum + one.bytes; });
}

int steps(const std::vector<Traffic>& traffic) {
  return std::max_element(traffic.begin(), traffic.end(),
                          [](const Traffic& a, const Traffic& b) { return a.steps < b.steps; })
      ->steps;
}

int ceil_log2(int n) { return static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1))); }

}  // namespace ronde::test
