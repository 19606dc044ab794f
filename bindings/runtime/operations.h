// The operations of this rank: submitting them, waiting for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bindings/runtime/diagnosis/callers.h"
#include "bindings/runtime/groups/devices.h"
#include "bindings/runtime/groups/runtime_state.h"
#include "bindings/runtime/injection.h"
#include "bindings/runtime/submission_preparer.h"
#include "bindings/runtime/timeline.h"
#include "core/base/status.h"
#include "core/engine/engine.h"
#include "core/ports/device_ops.h"

namespace ronde {

/// Starts this rank's operations over the engine, as long as the runtime is usable. Threads: any.
class Operations {
 public:
  /// All outlive it; `nonfinite` and `injector` may be null; `engine` until `state` ends.
  Operations(const RuntimeState& state, const SubmissionPreparer& preparer, Engine& engine,
             Devices& devices, Timeline& timeline, diagnosis::WaitingCallers& callers,
             const NonfinitePolicy* nonfinite, Injector* injector)
      : state_(state),
        preparer_(preparer),
        engine_(engine),
        devices_(devices),
        timeline_(timeline),
        callers_(callers),
        nonfinite_(nonfinite),
        injector_(injector) {}

  /// Submits one operation to a set. Blocks: never. Tensors in device memory may still be written
  /// by work of Submission::stream; they are done when their work is queued, see order_after().
  /// Errors: kInvalidArgument, kDuplicateName, kNotInitialized, and the job's failure once broken.
  Result<OperationPtr> submit(SetId set, Submission submission);
  /// Blocks until `operation` is done and returns its status; drives the engine meanwhile.
  Status wait(const OperationPtr& operation, const WaitOptions& options = {});
  /// Submits and waits, without waking any other thread.
  Result<OperationPtr> run(SetId set, Submission submission, const WaitOptions& options = {});

  /// Declares that this process submits nothing before all of these have ended, as long as
  /// `blocked` is true. Only where that is certain: ranks that wait for each other by it get
  /// kMismatch at once, before they stall. Blocks: never.
  void declare_blocked(std::span<const OperationPtr> operations, BlockedFlag blocked);
  /// Orders what `stream` is given from now on after the results of `operation`, which is done
  /// without error. Nothing for tensors in host memory. Blocks: never.
  Status order_after(const OperationPtr& operation, DeviceStream stream);

  /// As NonfinitePolicy::judge, of an operation that holds its finding; ok if it has none.
  [[nodiscard]] Status judge(const Operation& operation, std::string_view tensor,
                             std::string_view outcome) const;

  /// Declares that this rank has no more data in this set; done when all have joined.
  /// `on_done`: as Submission::on_done.
  Result<OperationPtr> join(SetId set, std::function<void(Operation&)> on_done = {});

  /// Starts sending to a rank of the job. `data` must stay untouched until done. `type`: of the
  /// elements; a receive of another type fails with kMismatch. Empty: any. Blocks: never.
  Result<OperationPtr> send(int to, std::int64_t tag, std::span<const std::byte> data,
                            const std::string& type = {});
  /// Starts receiving from `from` (or kAnySource) the next message with `tag`, at most
  /// `data.size()` bytes. `message` is filled in when done and must live until then; may be null.
  /// `type`: as of send().
  Result<OperationPtr> recv(int from, std::int64_t tag, std::span<std::byte> data, Message* message,
                            const std::string& type = {});

 private:
  [[nodiscard]] int size() const noexcept { return engine_.topology().size(); }

  const RuntimeState& state_;
  const SubmissionPreparer& preparer_;
  Engine& engine_;
  Devices& devices_;
  Timeline& timeline_;
  diagnosis::WaitingCallers& callers_;
  const NonfinitePolicy* const nonfinite_;
  Injector* const injector_;
};

}  // namespace ronde
