#include "ops/compression/compressed_allreduce.h"

#include <algorithm>
#include <array>

#include "core/base/clock.h"
#include "ops/compression/registry.h"

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

Status run_scheme(Transport& transport, const CompressedAllreduce& work, Scratch& scratch) {
  const Payload payload = codec_row(work.compression.scheme().spec.kind).payload;
  if (payload == Payload::kList) return sparse_allreduce(transport, work, scratch);
  if (payload == Payload::kFactors) return low_rank_allreduce(transport, work, scratch);
  return quantised_allreduce(transport, work, scratch);
}

}  // namespace

std::vector<CompressedPiece> pieces_of(const Work& work) {
  std::vector<CompressedPiece> pieces;
  pieces.reserve(work.segments.size());
  for (std::size_t tensor = 0; tensor < work.segments.size(); ++tensor) {
    const Segment& segment = work.segments[tensor];
    const std::size_t elements = segment.bytes / size_of(work.reduction.dtype);
    pieces.push_back({segment.in, segment.out, elements, tensor, 0});
  }
  return pieces;
}

std::size_t count_elements(std::span<const CompressedPiece> pieces) noexcept {
  std::size_t count = 0;
  for (const CompressedPiece& piece : pieces) count += piece.count;
  return count;
}

void load_piece(const CompressedAllreduce& work, const CompressedPiece& piece, std::size_t begin,
                std::span<float> values, std::byte* wide) {
  if (piece.in == nullptr) return std::fill(values.begin(), values.end(), 0.0F);
  const void* from = piece.in + begin * size_of(work.in_dtype);
  if (work.in_dtype != DType::kFloat32) {
    work.kernels.cast(work.in_dtype, from, DType::kFloat32, wide, values.size());
    from = wide;
  }
  const Reduction scale{DType::kFloat32, ReduceOp::kSum, {work.factor, 1.0}};
  work.kernels.reduce(scale, std::array{from}, values.data(), values.size());
}

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

Status compressed_allreduce(Transport& transport, const CompressedAllreduce& work,
                            Scratch& scratch) {
  return run_metered(transport, work.compression.facts(),
                     [&](Transport& metered) { return run_scheme(metered, work, scratch); });
}

}  // namespace ronde
