#include "ops/execution/word_exchange.h"

namespace ronde {

Result<std::span<const std::int64_t>> WordExchange::allgather(std::span<const std::int64_t> mine,
                                                              const AbortToken& abort) {
  all_.resize(mine.size() * size_);
  chunk_bytes_.assign(size_, mine.size_bytes());
  const Segment segment{std::as_bytes(mine).data(), std::as_writable_bytes(std::span(all_)).data(),
                        all_.size() * sizeof(std::int64_t)};
  Work work;
  work.kind = Collective::kAllgather;
  work.reduction.dtype = DType::kInt64;
  work.segments = {&segment, 1};
  work.chunk_bytes = chunk_bytes_;
  work.bytes = segment.bytes;
  RONDE_RETURN_IF_ERROR(host_.run(work, kNoStream, abort));
  return std::span<const std::int64_t>(all_);
}

}  // namespace ronde
