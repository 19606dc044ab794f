// The communicator of a group of one rank: copies.
#pragma once

#include <memory>

#include "core/ports/communicator.h"

namespace ronde {

/// Every output is the input, scaled where the kind reduces. Called "self".
class LocalCommunicator final : public Communicator {
 public:
  explicit LocalCommunicator(std::shared_ptr<const ReduceKernels> kernels);
  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override;

 private:
  const std::shared_ptr<const ReduceKernels> kernels_;
};

}  // namespace ronde
