#include "tests/core/engine/thread_executor.h"

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"

namespace ronde::test {

Result<std::vector<float>> MeetingPlace::sum(std::size_t round, const std::vector<float>& mine,
                                             const AbortToken& abort) {
  MutexLock lock(mutex_);
  Round& here = rounds_[round];
  if (here.arrived == 0) here.total.resize(mine.size());
  if (here.total.size() != mine.size()) return Status(Code::kMismatch, "other bundles meet here");
  for (std::size_t i = 0; i < mine.size(); ++i) here.total[i] += mine[i];
  ++here.arrived;
  arrived_.notify_all();
  while (here.arrived < size_) {
    if (abort.aborted()) return abort.status();
    arrived_.wait_until(mutex_, now() + std::chrono::milliseconds(2));
  }
  return here.total;
}

Status ThreadExecutor::execute(const Bundle& bundle, const AbortToken& abort) {
  if (!bundle.result.empty()) {
    auto* const out = static_cast<std::byte*>(bundle.tensors.at(0).out);
    if (out != nullptr) std::copy(bundle.result.begin(), bundle.result.end(), out);
    return {};
  }
  std::vector<float> values;
  for (const BundleTensor& tensor : bundle.tensors) {
    const auto count = static_cast<std::size_t>(element_count(tensor.shape));
    const auto* in = static_cast<const float*>(tensor.in);
    for (std::size_t i = 0; i < count; ++i) values.push_back(in == nullptr ? 0.0F : in[i]);
  }
  RONDE_ASSIGN_OR_RETURN(const auto total, place_->sum(round_++, values, abort));
  auto next = total.begin();
  for (const BundleTensor& tensor : bundle.tensors) {
    const auto count = element_count(tensor.shape);
    if (tensor.out != nullptr) std::copy_n(next, count, static_cast<float*>(tensor.out));
    next += count;
  }
  return {};
}

}  // namespace ronde::test
