// Work that is done at once, and says by whom.
#pragma once

#include <thread>

#include "core/ports/executor.h"

namespace ronde::test {

/// Notes which thread executes.
class NotingExecutor final : public Executor {
 public:
  explicit NotingExecutor(std::thread::id& ran) : ran_(ran) {}
  Status execute(const Bundle&, const AbortToken&) override {
    ran_ = std::this_thread::get_id();
    return {};
  }

 private:
  std::thread::id& ran_;
};

}  // namespace ronde::test
