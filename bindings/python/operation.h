// An operation as Python holds it: its state, and references that keep its memory alive.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/python/bind.h"

namespace ronde::python {

struct Together;

/// Keeps the memory of tensors in flight where it is. It holds the owners of PyTorch's memory. Of
/// NumPy arrays, and of those that they are views of, it holds weak references: while there is one,
/// ndarray.resize() refuses to move the memory, also with refcheck=False.
class Pins {
 public:
  /// Adds an object's; nothing where it is no array. Threads: the GIL is held.
  void add(pybind11::handle object);
  void add_owner(pybind11::object owner) { references_.push_back(std::move(owner)); }
  /// Adds a storage of PyTorch. Its tensors may resize it, which frees the memory.
  void add_storage(pybind11::object storage);
  /// True if a storage has been resized: the operation used memory that was freed.
  [[nodiscard]] bool are_freed() const;
  void clear();

 private:
  std::vector<pybind11::object> references_;
  std::vector<std::pair<pybind11::object, std::uintptr_t>> storages_;  // and their addresses
};

/// A submitted operation and the Python objects whose memory it uses.
/// Owns: `keep` is let go once the operation, and a device's work for it, is done, even where
/// Python drops the handle earlier. Threads: the GIL is held, but for what wait() does inside.
class Handle {
 public:
  Handle(RuntimePtr runtime, OperationPtr operation, pybind11::object keep, Pins pins = {});
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  /// Never blocks.
  [[nodiscard]] bool done();
  /// Blocks until done; raises its error. The GIL is released meanwhile. `together`: null, or what
  /// else this thread waits for before it submits anything.
  void wait(double timeout_s, const Together* together = nullptr);
  /// Makes a CUDA stream wait for the results; once done. Raises the device's error.
  void order_after(std::uintptr_t stream);
  [[nodiscard]] const OperationPtr& operation() const { return operation_; }
  /// Becomes true once somebody has seen that the operation has ended.
  [[nodiscard]] const std::shared_ptr<bool>& seen() const { return seen_; }
  /// The arguments given as `keep`.
  [[nodiscard]] pybind11::object kept() const { return keep_; }

 private:
  RuntimePtr runtime_;
  OperationPtr operation_;
  pybind11::object keep_;
  void let_go();

  Pins pins_;  // until the operation has ended
  bool freed_ = false;
  const std::shared_ptr<bool> seen_ = std::make_shared<bool>(false);
};

/// Operations all of which their thread waits for, one by one, before it submits another.
struct Together {
  explicit Together(const std::vector<const Handle*>& handles);
  std::vector<OperationPtr> operations;
};

/// Lets go of what was kept for dropped operations that are done by now.
void sweep_dropped();

}  // namespace ronde::python
