#include "bindings/cli/bench/team.h"

#include <numeric>
#include <utility>

#include "bindings/runtime/groups/group_factory.h"

namespace ronde::bench {

Team::Team(std::unique_ptr<Runtime> runtime, std::unique_ptr<RawGroup> group)
    : runtime_(std::move(runtime)), group_(std::move(group)) {}

Result<std::unique_ptr<Team>> Team::join(const Config& config) {
  RONDE_ASSIGN_OR_RETURN(auto runtime, Runtime::create(config));
  std::vector<int> ranks(static_cast<std::size_t>(runtime->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  RONDE_ASSIGN_OR_RETURN(auto group, runtime->groups().open(std::move(ranks)));
  return std::unique_ptr<Team>(new Team(std::move(runtime), std::move(group)));
}

Status Team::barrier() { return group_->run(Bundle{}); }

Status Team::slowest(std::span<double> values) {
  Bundle bundle;
  bundle.kind = Collective::kAllreduce;
  bundle.dtype = DType::kFloat64;
  bundle.op = ReduceOp::kMax;
  BundleTensor tensor;
  tensor.name = "slowest";
  tensor.in = tensor.out = values.data();
  tensor.shape = {static_cast<std::int64_t>(values.size())};
  bundle.tensors.push_back(tensor);
  return group_->run(bundle);
}

Status Team::all(bool good, const std::string& what) {
  double bad = good ? 0 : 1;
  RONDE_RETURN_IF_ERROR(slowest({&bad, 1}));
  return bad == 0 ? Status() : Status(Code::kInternal, what);
}

}  // namespace ronde::bench
