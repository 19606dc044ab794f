// An operation as Python holds it: its state, and references that keep its memory alive.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "bindings/python/bind.h"

namespace ronde::python {

/// A submitted operation and the Python objects whose memory it uses.
/// Owns: `keep` is let go once the operation is done, even where Python drops the handle earlier.
/// Threads: the GIL is held, but for what wait() does inside.
class Handle {
 public:
  Handle(RuntimePtr runtime, OperationPtr operation, pybind11::object keep);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  [[nodiscard]] bool done() const { return operation_->done(); }
  /// Blocks until done; raises its error. The GIL is released meanwhile.
  void wait(double timeout_s);
  [[nodiscard]] const OperationPtr& operation() const { return operation_; }
  /// The arguments given as `keep`.
  [[nodiscard]] pybind11::object kept() const { return keep_; }

 private:
  RuntimePtr runtime_;
  OperationPtr operation_;
  pybind11::object keep_;
};

/// Lets go of what was kept for dropped operations that are done by now.
void sweep_dropped();

}  // namespace ronde::python
