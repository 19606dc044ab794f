// Tells a process from its forked child, at the price of one load.
#pragma once

#include <cstddef>

#include "core/base/status.h"

namespace ronde {

/// True only in the process that made it and in its threads. Threads: any.
class ForkMark {
 public:
  ForkMark();
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  /// Whether this is a child that was forked since.
  [[nodiscard]] bool forked() const noexcept { return page_ != nullptr && *page_ == 0; }

 private:
  volatile char* page_ = nullptr;  // the kernel hands children zeros; null where it cannot
};

/// What calls in a forked child get.
Status forked_status();

}  // namespace ronde
