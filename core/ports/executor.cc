#include "core/ports/executor.h"

namespace ronde {

std::size_t input_bytes(const Bundle& bundle) noexcept {
  std::size_t sum = 0;
  for (const BundleTensor& tensor : bundle.tensors) {
    sum += static_cast<std::size_t>(element_count(tensor.shape)) * size_of(bundle.dtype);
  }
  return sum;
}

}  // namespace ronde
