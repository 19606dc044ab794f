// Tells at the call that a name is in use already, before the job hears of the second use.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "bindings/python/bind.h"

namespace ronde::python {

/// The named operations that this process has submitted and that have not ended yet.
/// Threads: one at a time; the GIL does.
class NamesInFlight {
 public:
  /// Errors: kDuplicateName, with both call sites, where an operation of this name is in flight in
  /// the set. It goes on.
  [[nodiscard]] Status check(SetId set, const Request& request) const;
  /// Remembers an operation until it has ended. Those without a name never clash.
  void enter(SetId set, const OperationPtr& operation);

 private:
  void forget_ended();

  std::unordered_map<std::string, std::weak_ptr<Operation>> operations_;  ///< By set and name.
  std::size_t look_again_at_ = 1024;  ///< Size at which those that have ended are looked for.
};

}  // namespace ronde::python
