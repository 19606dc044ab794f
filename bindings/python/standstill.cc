#include "bindings/python/standstill.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

constexpr std::chrono::milliseconds kPatience{500};  // ranks that are merely late cost no question

/// Whether no other thread of this process could submit an operation.
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

Status Standstill::wait(const OperationPtr& operation) {
  WaitOptions options = interruptible(-1.0);
  bool asked = false;  // once for each that takes long: operations before it have ended meanwhile
  options.interrupt = [&, check = std::move(options.interrupt)]() -> Status {
    RONDE_RETURN_IF_ERROR(check());
    if (!asked && std::chrono::steady_clock::now() - since_ >= kPatience) {
      asked = true;
      tell();
    }
    return {};
  };
  return runtime_.wait(operation, options);
}

void Standstill::tell() {
  if (!submits_alone()) return;
  if (told_ == nullptr) told_ = std::make_shared<std::atomic<bool>>(true);
  runtime_.stand_still(operations_, told_);
}

}  // namespace ronde::python
