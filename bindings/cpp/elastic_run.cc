// run(): training through failures and changes of ranks.
#include <optional>

#include "bindings/cpp/elastic_state.h"
#include "bindings/cpp/internal.h"
#include "bindings/elastic/leave_signal.h"
#include "ronde/elastic.h"

namespace ronde::elastic {
namespace {

/// One call of run().
class Run {
 public:
  Run(State::Impl& state, const std::function<void()>& train) : state_(state), train_(train) {}

  bool call() {
    state_.prepare();
    for (bool again = false;; again = true) {
      try {
        if (again && !state_.rejoin()) return returned_;
        one_epoch(again);
        return true;
      } catch (const HostsUpdated& updated) {
        restored_ = false;
        skip_sync_ = updated.only_removed();
      } catch (const Error& error) {
        if (!may_go_on(error)) throw;
        go_back(error);
      }
    }
  }

 private:
  void one_epoch(bool again) {
    const bool elastic = state_.worker() != nullptr;
    bool send = !skip_sync_;
    if (elastic) send = state_.choose(restored_, skip_sync_);  // before callbacks: theirs must last
    if (again) state_.call_back();
    if (elastic) {
      state_.begin(send);
    } else if (send) {
      if (!again) state_.resume();
      state_.sync();
    }
    returned_ = false;
    train_();
    returned_ = true;
    if (elastic) state_.finish();
  }

  /// Without a launcher only a job of one rank goes on.
  bool may_go_on(const Error& error) {
    return recoverable(error) && (state_.worker() != nullptr || state_.job().size() == 1);
  }

  void go_back(const Error& error) {
    if (state_.worker() != nullptr) note_failure(*state_.worker(), error);
    state_.go_back();
    restored_ = true;
    skip_sync_ = false;
  }

  State::Impl& state_;
  const std::function<void()>& train_;
  bool restored_ = false;
  bool skip_sync_ = false;
  bool returned_ = false;
};

}  // namespace

bool run(State& state, const std::function<void()>& train) {
  const auto leaves = value_or_throw(LeaveSignal::watch(state.impl().worker()));
  try {
    return Run(state.impl(), train).call();
  } catch (const LauncherLost&) {
    state.impl().write_committed();
    throw;
  }
}

}  // namespace ronde::elastic
