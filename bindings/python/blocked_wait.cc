#include "bindings/python/blocked_wait.h"

#include "bindings/runtime/operations.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

constexpr std::chrono::milliseconds kAskAfter{500};  // ranks that are merely late cost no question

/// True if no other thread of this process could submit an operation.
bool submits_alone() {
  const py::gil_scoped_acquire locked;
  try {
    return py::module_::import("ronde._alone").attr("submits_alone")().cast<bool>();
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("ronde._alone.submits_alone");
    return false;
  }
}

}  // namespace

Status BlockedWait::wait(const OperationPtr& operation) {
  WaitOptions options = interruptible(-1.0);
  bool asked = false;  // once for each that takes long: operations before it have ended meanwhile
  options.interrupt = [&, check = std::move(options.interrupt)]() -> Status {
    RONDE_RETURN_IF_ERROR(check());
    if (!asked && std::chrono::steady_clock::now() - since_ >= kAskAfter) {
      asked = true;
      declare();
    }
    return {};
  };
  return runtime_.operations().wait(operation, options);
}

void BlockedWait::declare() {
  if (!submits_alone()) return;
  if (blocked_ == nullptr) blocked_ = std::make_shared<std::atomic<bool>>(true);
  runtime_.operations().declare_blocked(operations_, blocked_);
}

elastic::Ranks ranks_of(Runtime& runtime) {
  return elastic::Ranks(runtime, [](Runtime& job, const OperationPtr& operation) {
    return BlockedWait(job, std::span(&operation, 1)).wait(operation);
  });
}

}  // namespace ronde::python
