// Where a tensor of PyTorch lies: read in the core, as Python would spend more time on its
// attributes than a small tensor takes to send.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>

#include "bindings/runtime/operations.h"
#include "core/protocol/request.h"

namespace ronde::python {

/// The memory of a tensor, and what keeps it there. Threads: the GIL is held.
struct TorchMemory {
  void* data = nullptr;
  TensorMeta meta;
  pybind11::object storage;  ///< Keeps the memory where tensor.data is replaced.
};

/// Nothing unless the tensor is of a class that read_torch() was told, dense, contiguous, in host
/// memory and of a type that the core has; and for PyTorch before 2.10, which cannot be read like
/// this.
std::optional<TorchMemory> memory_of(pybind11::handle tensor);

/// Its address alone; nothing where it cannot be read.
std::optional<void*> address_of(pybind11::handle tensor);

/// Raises unless the tensor is at this address.
void check_unmoved(pybind11::handle tensor, const void* data);

/// True while torch.profiler runs.
bool profiler_runs();

/// The core's number of a process set. Raises for one that is not registered.
SetId id_of_set(pybind11::handle process_set);

}  // namespace ronde::python
