// A fault that a user plants in a job, to rehearse what its checks tell.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/engine/queues/operation.h"

namespace ronde {

/// A NaN in place of an element of one rank's input.
struct Injection {
  int rank = 0;
  std::string tensor;      ///< The operation's name, or a part of it.
  std::uint64_t step = 1;  ///< From 1, by the marks of steps.
  std::size_t element = 0;
};

/// Reads "nan:rank=1,tensor=layer3.weight,step=20,element=7"; step and element may be left out.
/// Errors: kInvalidArgument with what is allowed.
Result<Injection> parse_injection(std::string_view text);

/// Plants a fault, once. Threads: any.
class Injector {
 public:
  /// `steps`: training steps that have been marked.
  Injector(Injection injection, std::function<std::uint64_t()> steps)
      : injection_(std::move(injection)), steps_(std::move(steps)) {}

  /// Changes this rank's input where it is the one that is meant: a reduction of a floating type in
  /// host memory.
  void plant(const Submission& submission);

 private:
  [[nodiscard]] bool is_meant(const Submission& submission) const;

  const Injection injection_;
  const std::function<std::uint64_t()> steps_;
  std::atomic<bool> planted_{false};
};

}  // namespace ronde
