#include "bindings/cli/bench/contender.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <utility>

#include "bindings/runtime/operations.h"
#include "bindings/runtime/timeline.h"

namespace ronde::bench {

Submission submission_of(const Trial& trial, std::size_t index) {
  const Bundle bundle = trial.bundle();
  Submission submission;
  submission.request.name = fmt::format("bench.{}.{}", trial.bytes(), index);
  submission.request.kind = bundle.kind;
  submission.request.op = bundle.op;
  submission.request.root = traits_of(bundle.kind).rooted() ? 0 : -1;
  for (const BundleTensor& tensor : bundle.tensors) {
    submission.request.tensors.push_back({bundle.dtype, tensor.shape});
    submission.inputs.push_back(tensor.in);
    submission.outputs.push_back(tensor.out);
  }
  return submission;
}

namespace {

Status run_each(RawGroup& group, const Trials& trials) {
  for (const auto& trial : trials) RONDE_RETURN_IF_ERROR(group.run(trial->bundle()));
  return {};
}

Status run_named(Runtime& runtime, const Trials& trials) {
  for (std::size_t i = 0; i < trials.size(); ++i) {
    RONDE_RETURN_IF_ERROR(
        runtime.operations().run(kGlobalSet, submission_of(*trials[i], i)).status());
  }
  return {};
}

Status run_async(Runtime& runtime, const Trials& trials) {
  std::vector<OperationPtr> operations;
  operations.reserve(trials.size());
  for (std::size_t i = 0; i < trials.size(); ++i) {
    RONDE_ASSIGN_OR_RETURN(auto operation,
                           runtime.operations().submit(kGlobalSet, submission_of(*trials[i], i)));
    operations.push_back(std::move(operation));
  }
  for (const OperationPtr& operation : operations)
    RONDE_RETURN_IF_ERROR(runtime.operations().wait(operation));
  return {};
}

}  // namespace

Contender raw_contender(Team& team, Trials& trials) {
  return {"ronde", [&team, &trials] { return run_each(team.group(), trials); },
          [&team] { return team.group().last_path(); }};
}

Contender bundle_contender(Team& team, Trials& trials) {
  auto bundle = std::make_shared<Bundle>(trials.front()->bundle());
  bundle->tensors.clear();
  for (const auto& trial : trials) bundle->tensors.push_back(trial->bundle().tensors.front());
  return {"ronde", [&team, bundle] { return team.group().run(*bundle); },
          [&team, count = trials.size()] {
            return fmt::format("{}, {} fused", team.group().last_path(), count);
          }};
}

Contender named_contender(Team& team, Trials& trials) {
  return {"ronde-named", [&team, &trials] { return run_named(team.runtime(), trials); },
          [] { return std::string("engine"); }};
}

Contender async_contender(Team& team, Trials& trials, std::string label) {
  return {"ronde-async", [&team, &trials] { return run_async(team.runtime(), trials); },
          [label = std::move(label)] { return label; }};
}

Contender recorded_contender(Team& team, const Contender& plain) {
  return {"ronde-timeline",
          [&team, run = plain.run] {
            team.runtime().timeline().pause(false);
            Status status = run();
            team.runtime().timeline().pause(true);
            return status;
          },
          [algorithm = plain.algorithm] { return algorithm() + ", recorded"; }};
}

Contender memcpy_contender(Trials& trials) {
  std::size_t largest = 0;
  for (const auto& trial : trials) largest = std::max(largest, trial->out().size());
  auto source = std::make_shared<std::vector<std::byte>>(largest, std::byte{0x33});
  return {"memcpy",
          [source, &trials] {
            for (const auto& trial : trials) {
              const std::span<std::byte> out = trial->out();
              if (!out.empty()) std::memcpy(out.data(), source->data(), out.size());
            }
            return Status();
          },
          [] { return std::string("memcpy"); }, false};
}

}  // namespace ronde::bench
