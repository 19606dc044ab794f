// Counts what an algorithm puts on the wire and how many messages must follow one another.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/ports/transport.h"
#include "ops/algorithms.h"
#include "ops/transfer.h"

namespace ronde::test {

/// Messages, bytes and steps of one rank.
struct Traffic {
  std::size_t messages = 0;  ///< sent
  std::size_t bytes = 0;     ///< sent
  /// The longest chain of messages, each sent after the one before had arrived, that ended here.
  int steps = 0;
};

/// The steps at which messages under way were sent, by sender and receiver. Threads: any.
class WireLog {
 public:
  void sent(int from, int to, int step) RONDE_EXCLUDES(mutex_);
  int received(int from, int to) RONDE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::map<std::pair<int, int>, std::deque<int>> steps_ RONDE_GUARDED_BY(mutex_);
};

/// Passes everything on and counts. Threads: one at a time.
class CountingTransport final : public Transport {
 public:
  CountingTransport(Transport& inner, WireLog& log) : inner_(inner), log_(log) {}

  [[nodiscard]] int rank() const noexcept override { return inner_.rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_.size(); }
  Result<TransferId> send(int to, std::span<const std::byte> data) override;
  Result<TransferId> recv(int from, std::span<std::byte> data) override;
  Status wait(TransferId id, const AbortToken& abort) override;

  [[nodiscard]] const Traffic& traffic() const noexcept { return traffic_; }

 private:
  Transport& inner_;
  WireLog& log_;
  Traffic traffic_;
  std::map<TransferId, int> receives_;  // posted, by sender
};

/// The traffic of `body` on each of `ranks` ranks (threads), by rank.
std::vector<Traffic> count_traffic(int ranks,
                                   const std::function<void(Transport&, Scratch&)>& body);

/// Sum of bytes; longest chain.
std::size_t total_bytes(const std::vector<Traffic>& traffic);
int steps(const std::vector<Traffic>& traffic);

/// ceil(log2 n).
int ceil_log2(int n);

}  // namespace ronde::test
