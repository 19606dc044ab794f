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

Result<std::vector<std::string>> TeamExchange::allgather(std::string_view mine) {
  // Maxima of values that all other ranks have as zeros: so the bench relies on one collective.
  const auto size = static_cast<std::size_t>(team_.size());
  const auto me = static_cast<std::size_t>(team_.rank());
  std::vector<double> lengths(size, 0);
  lengths[me] = static_cast<double>(mine.size());
  RONDE_RETURN_IF_ERROR(team_.slowest(lengths));
  const auto total = std::accumulate(
      lengths.begin(), lengths.end(), std::size_t{0},
      [](std::size_t sum, double length) { return sum + static_cast<std::size_t>(length); });
  std::vector<double> letters(total, 0);
  std::size_t at = 0;
  for (std::size_t r = 0; r < me; ++r) at += static_cast<std::size_t>(lengths[r]);
  for (const char letter : mine) letters[at++] = static_cast<unsigned char>(letter);
  RONDE_RETURN_IF_ERROR(team_.slowest(letters));
  std::vector<std::string> values(size);
  at = 0;
  for (std::size_t r = 0; r < size; ++r) {
    for (double i = 0; i < lengths[r]; ++i) {
      values[r] += static_cast<char>(static_cast<unsigned char>(letters[at++]));
    }
  }
  return values;
}

}  // namespace ronde::bench
