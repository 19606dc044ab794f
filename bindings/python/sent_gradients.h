// The gradients of thousands of parameters, read in one pass. Python would spend more time on
// attributes of tensors than a step takes to send them.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "bindings/python/torch_memory.h"

namespace ronde::python {

/// Which memory is in flight, and with whom. Threads: the GIL is held.
struct Owners {
  std::unordered_map<std::uintptr_t, pybind11::object> by_address;
};

/// PyTorch's gradients of some parameters, while they are in flight. Threads: the GIL is held.
class SentGradients {
 public:
  /// One gradient as it was when it was sent.
  struct One {
    pybind11::object tensor;
    TorchMemory memory;
    long version = 0;  ///< tensor._version: how often it was written.
  };

  /// `codes`: the element type that each parameter's gradient must have; -1: none is sent.
  SentGradients(pybind11::list parameters, std::vector<int> codes)
      : parameters_(std::move(parameters)), codes_(std::move(codes)) {}

  /// Reads the gradients, and adds their addresses to `in_flight` with `owner`. False, with nothing
  /// done, unless each is a dense, contiguous tensor in host memory of its own.
  [[nodiscard]] bool take(Owners& in_flight, const pybind11::object& owner);
  /// The tensors, in the order of the parameters.
  [[nodiscard]] pybind11::list tensors() const;
  /// Of each gradient that is another, was written or has moved since take(): its place in the
  /// list, and its version and address then. Lets all go.
  [[nodiscard]] pybind11::list changed();

  [[nodiscard]] const std::vector<One>& all() const { return taken_; }

 private:
  [[nodiscard]] bool read(std::size_t place, One& one) const;

  pybind11::list parameters_;
  std::vector<int> codes_;
  std::vector<One> taken_;
};

}  // namespace ronde::python
