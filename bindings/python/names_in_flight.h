// Tells at the call that a name is in use already, before the job hears of the second use.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "bindings/python/bind.h"

namespace ronde::python {

/// The named operations that this process has submitted and that have not ended yet. An operation
/// whose end nobody has waited for or polled keeps its name a little longer. Else the speed of
/// other ranks would decide if the name may be used again.
/// Threads: one at a time; the GIL does.
class NamesInFlight {
 public:
  /// An operation whose end no caller has seen keeps its name at least this long.
  static constexpr std::chrono::milliseconds kUnseen{20};

  /// This process's. Never destroyed, as operations may outlive the interpreter.
  static NamesInFlight& of_process();

  /// Errors: kDuplicateName, with both call sites, where an operation of this name is in flight in
  /// the set. It goes on.
  [[nodiscard]] Status check(SetId set, const Request& request) const;
  /// Remembers an operation until it has ended. Those without a name never clash.
  /// `seen` becomes true once its end has been looked at.
  void enter(SetId set, const OperationPtr& operation, std::shared_ptr<const bool> seen);
  /// Forgets all: the job has ended, and the next one may use the same names.
  void clear();

 private:
  struct Entry {
    std::weak_ptr<Operation> operation;
    std::shared_ptr<const bool> seen;
    std::string call_site;
    std::chrono::steady_clock::time_point since;

    [[nodiscard]] bool in_flight() const;
  };

  using ByName = std::unordered_map<std::string, Entry>;

  void forget_ended();

  std::map<SetId, ByName> operations_;
  std::size_t count_ = 0;             ///< Operations of all sets.
  std::size_t look_again_at_ = 1024;  ///< Size at which those that have ended are looked for.
};

}  // namespace ronde::python
