#include "ops/compression/metered.h"

#include <cstdint>

#include "core/base/clock.h"

namespace ronde {
namespace {

/// Counts bytes that are sent and the time of waits.
class MeteredTransport final : public Transport {
 public:
  MeteredTransport(Transport& inner, CompressionFacts& facts) : inner_(inner), facts_(facts) {}

  [[nodiscard]] int rank() const noexcept override { return inner_.rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_.size(); }
  Result<TransferId> send(int to, std::span<const std::byte> data) override {
    facts_.wire_bytes += data.size();
    return inner_.send(to, data);
  }
  Result<TransferId> recv(int from, std::span<std::byte> data) override {
    return inner_.recv(from, data);
  }
  Status wait(TransferId id, const AbortToken& abort) override {
    const Stopwatch waiting(&facts_.wire_ns);
    return inner_.wait(id, abort);
  }

 private:
  Transport& inner_;
  CompressionFacts& facts_;
};

}  // namespace

Status run_metered(Transport& transport, CompressionFacts& facts,
                   const std::function<Status(Transport&)>& body) {
  const std::int64_t others = facts.wire_ns + facts.decompress_ns;
  std::int64_t all = 0;
  MeteredTransport metered(transport, facts);
  const Status status = [&] {
    const Stopwatch running(&all);
    return body(metered);
  }();
  facts.compress_ns += all - (facts.wire_ns + facts.decompress_ns - others);
  return status;
}

}  // namespace ronde
