#include "bindings/cpp/elastic_agreement.h"

#include <span>

#include "bindings/elastic/leave_signal.h"

namespace ronde::elastic {
namespace {

/// The maximum over all ranks.
std::int64_t maximum(Job& job, const char* name, std::int64_t value) {
  job.allreduce(name, tensor(std::span(&value, 1)), {.op = ReduceOp::kMax});
  return value;
}

bool has(std::optional<Change> change, Change bit) {
  return change && (static_cast<int>(*change) & static_cast<int>(bit)) != 0;
}

Tensor bytes_of(std::vector<std::byte>& bytes) {
  return tensor(std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()));
}

}  // namespace

CommitFacts agree(Job& job, std::optional<Change> change, bool returned) {
  const bool leaves = asked_to_leave();
  auto bytes = encode_wire(CommitFacts{change || leaves, has(change, Change::kAdded),
                                       has(change, Change::kRemoved) || leaves, !returned});
  job.allreduce("elastic.agreement", bytes_of(bytes), {.op = ReduceOp::kMax});
  return value_or_throw(decode_wire<CommitFacts>(bytes, "facts of a commit"));
}

std::int64_t newest_step(Job& job, std::int64_t step) { return maximum(job, "elastic.step", step); }

Array gather_bytes(Job& job, const char* name, std::vector<std::byte> mine) {
  return job.allgather_async(name, bytes_of(mine)).output();
}

void meet(Job& job) { maximum(job, "elastic.started", 0); }

}  // namespace ronde::elastic
