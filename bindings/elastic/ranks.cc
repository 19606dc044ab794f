#include "bindings/elastic/ranks.h"

#include <cstring>
#include <memory>
#include <utility>

#include "bindings/elastic/leave_signal.h"
#include "bindings/runtime/operations.h"

namespace ronde::elastic {

Result<CommitFacts> Ranks::agree(CommitFacts mine) {
  const bool leaves = asked_to_leave();
  mine.changed |= leaves;
  mine.removed |= leaves;
  RONDE_ASSIGN_OR_RETURN(const Received joined, run(Collective::kAllreduce, "elastic.agreement",
                                                    encode_wire<std::string>(mine)));
  return decode_wire<CommitFacts>(as_bytes(joined.bytes), "facts of a commit");
}

Result<std::int64_t> Ranks::greatest(const char* name, std::int64_t value) {
  const std::string mine(reinterpret_cast<const char*>(&value), sizeof(value));
  RONDE_ASSIGN_OR_RETURN(const Received found,
                         run(Collective::kAllreduce, name, mine, {}, DType::kInt64));
  std::memcpy(&value, found.bytes.data(), sizeof(value));
  return value;
}

Result<std::string> Ranks::gather_bytes(const char* name, std::string mine) {
  RONDE_ASSIGN_OR_RETURN(Received found, run(Collective::kAllgather, name, std::move(mine)));
  return std::move(found.bytes);
}

Result<Ranks::Received> Ranks::exchange(const char* name, std::string bytes,
                                        std::vector<std::int64_t> sizes) {
  return run(Collective::kAlltoall, name, std::move(bytes), std::move(sizes));
}

/// A wait that is interrupted leaves the operation in flight: it keeps the bytes.
Result<Ranks::Received> Ranks::run(Collective kind, const char* name, std::string bytes,
                                   std::vector<std::int64_t> sizes, DType dtype) {
  const auto sent = std::make_shared<const std::string>(std::move(bytes));
  const std::size_t element_size = size_of(dtype);
  Submission submission;
  submission.request.kind = kind;
  submission.request.name = name;
  if (kind == Collective::kAllreduce) submission.request.op = ReduceOp::kMax;
  submission.request.tensors = {{dtype, {static_cast<std::int64_t>(sent->size() / element_size)}}};
  submission.inputs = {sent->data()};
  submission.outputs = {nullptr};
  submission.splits = std::move(sizes);
  submission.on_done = [sent](Operation&) {};
  submission.caller_waits = true;
  Operations& operations = runtime_.operations();
  RONDE_ASSIGN_OR_RETURN(const OperationPtr done,
                         operations.submit(kGlobalSet, std::move(submission)));
  RONDE_RETURN_IF_ERROR(wait_ ? wait_(runtime_, done) : operations.wait(done));
  const OwnedOutput& output = done->owned_outputs().at(0);
  const auto size = static_cast<std::size_t>(element_count(output.shape)) * element_size;
  const auto* const text = reinterpret_cast<const char*>(output.data.get());
  return Received{std::string(text, text + size), done->recv_splits()};
}

}  // namespace ronde::elastic
