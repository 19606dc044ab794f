// An operation as Python holds it: its state, and references that keep its memory alive.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/bind.h"
#include "core/engine/peers/messages.h"

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

/// The objects that an operation uses. They are kept until the operation, and its work on a device,
/// is done.
struct InUse {
  RuntimePtr runtime;
  OperationPtr operation;
  pybind11::object keep;
  Pins pins;
  std::shared_ptr<Message> message;  ///< What a receive learns; null for others.
};

/// A submitted operation and the Python objects whose memory it uses: the package's Handle.
/// Owns: what is in use is let go once it is not any more, even where Python drops the handle
/// earlier. Threads: the GIL is held, but for what await() does inside.
class Handle {
 public:
  explicit Handle(InUse in_use) : in_use_(std::move(in_use)) {}
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  /// Never blocks.
  [[nodiscard]] bool done();
  /// Blocks until done; raises its error. The GIL is released meanwhile. `together`: null, or what
  /// else this thread waits for before it submits anything. `timeout_s` < 0: without end.
  void await(double timeout_s, const Together* together = nullptr);
  /// await(), then the result: what `keep` was, or what finish() and then() have asked for.
  /// `self`: this handle's object. `timeout`: seconds, or None for no limit.
  [[nodiscard]] pybind11::object wait(const pybind11::object& self, const pybind11::object& timeout,
                                      const Together* together);
  /// From now on `function` makes the result, of the handle.
  void finish(pybind11::object function) { finish_ = std::move(function); }
  /// Passes the result through one more function.
  void then(pybind11::object function) { further_.push_back(std::move(function)); }
  /// wait() raises where the kept tensor of PyTorch is not in the output's memory any more.
  void check_place() { checks_place_ = true; }
  /// Makes a CUDA stream wait for the results; once done. Raises the device's error.
  void order_after(std::uintptr_t stream);
  /// As Operations::judge; raises the error.
  void judge(const std::string& tensor, const std::string& outcome) const;
  [[nodiscard]] const OperationPtr& operation() const { return in_use_.operation; }
  /// The sender and size of a received message; once done. Raises TypeError for other operations.
  [[nodiscard]] const Message& message() const;
  /// Becomes true once somebody has seen that the operation has ended.
  [[nodiscard]] const std::shared_ptr<bool>& seen() const { return seen_; }

 private:
  void let_go();
  [[nodiscard]] pybind11::object made(const pybind11::object& self) const;

  InUse in_use_;  // the pins until the operation has ended
  bool freed_ = false;
  bool checks_place_ = false;
  const std::shared_ptr<bool> seen_ = std::make_shared<bool>(false);
  pybind11::object finish_;
  std::vector<pybind11::object> further_;
  pybind11::object result_;  // null until wait() has made it
};

/// Operations all of which their thread waits for, one by one, before it submits another.
struct Together {
  explicit Together(const std::vector<const Handle*>& handles);
  std::vector<OperationPtr> operations;
};

/// Lets go of what was kept for dropped operations that are done by now.
void sweep_dropped();

}  // namespace ronde::python
