// Warns, or fails the operation, when it has reduced values that are not finite.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/engine/queues/operation.h"
#include "core/ports/event_sink.h"

namespace ronde {

/// For one rank. Threads: any.
class NonfinitePolicy {
 public:
  struct Options {
    bool fails = false;                    ///< Operations get an error.
    std::function<std::uint64_t()> steps;  ///< Training steps that have been marked; may be empty.
    const EventSwitch* events = nullptr;   ///< Outlives it; may be null.
  };
  explicit NonfinitePolicy(Options options) : options_(std::move(options)) {}

  /// Training steps so far.
  [[nodiscard]] std::uint64_t steps() const { return options_.steps ? options_.steps() : 0; }
  /// Judges an operation that has ended with a finding. The first of its ranks marks the timeline,
  /// and warns unless it fails. `tensor`: the name of that tensor; empty: its number alone.
  /// `outcome`: what else follows, for the text. Errors: kNonfinite.
  Status judge(const Operation& operation, std::string_view tensor = {},
               std::string_view outcome = {}) const;

 private:
  void mark(const std::string& text) const;
  void warn(const Operation& operation, const std::string& text) const;

  struct Told {
    TimePoint last;
    std::uint64_t untold = 0;
  };

  const Options options_;
  mutable Mutex mutex_;
  mutable std::map<std::string, Told> told_ RONDE_GUARDED_BY(mutex_);  // by the operation's name
};

}  // namespace ronde
