#include "bindings/cpp/sharded_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/join_text.h"

namespace ronde::sharded {
namespace {

/// The elements of a slot that are in a range of its bucket.
Range overlap(const Slot& slot, const Range& range) {
  const std::size_t begin = std::clamp(slot.begin, range.begin, range.end);
  return {begin, std::clamp(slot.end(), begin, range.end)};
}

/// A slot's part of the state in `range`, whose values are given by kind.
void add_part(const Slot& slot, const Range& range, std::string_view kind,
              std::span<const float> values, std::vector<StateTensor>& tensors) {
  const Range part = overlap(slot, range);
  if (part.count() == 0) return;
  const auto from = values.subspan(part.begin - range.begin, part.count());
  tensors.push_back({slot.name,
                     std::string(kind),
                     slot.shape,
                     static_cast<std::int64_t>(part.begin - slot.begin),
                     {from.begin(), from.end()}});
}

using Key = std::pair<std::string_view, std::string_view>;  // parameter, kind

Key key_of(const StateTensor& one) { return {one.parameter, one.kind}; }

std::string text_of(const Key& key) {
  return fmt::format("\"{}\" of \"{}\"", key.second, key.first);
}

std::map<Key, const StateTensor*> by_key(const ShardedState& state) {
  std::map<Key, const StateTensor*> found;
  for (const StateTensor& one : state.tensors) found.emplace(key_of(one), &one);
  return found;
}

std::int64_t end_of(const StateTensor& one) {
  return one.begin + static_cast<std::int64_t>(one.values.size());
}

/// A problem of the tensor that is given for `mine`.
std::string problem_of_tensor(const StateTensor* given, const StateTensor& mine) {
  const std::string name = text_of(key_of(mine));
  if (given == nullptr) return fmt::format("the state has no {}", name);
  if (given->shape != mine.shape) {
    return fmt::format("the state has {} with the shape {}, not {}", name, to_string(given->shape),
                       to_string(mine.shape));
  }
  if (given->begin <= mine.begin && end_of(*given) >= end_of(mine)) return {};
  return fmt::format("the state has elements {} to {} of {}, but {} to {} are needed", given->begin,
                     end_of(*given), name, mine.begin, end_of(mine));
}

std::string problem_of_place(const ShardedState& state, const ShardedState& mine) {
  if (state.ranks == 1) return {};
  if (state.ranks != mine.ranks) {
    return fmt::format(
        "the state was saved by {} ranks, but {} load it: merge_sharded_states() makes one of all "
        "of its shards that any number can load",
        state.ranks, mine.ranks);
  }
  return state.rank == mine.rank
             ? ""
             : fmt::format("the shard of rank {} was given to rank {}", state.rank, mine.rank);
}

/// A problem of shards that are to be merged.
std::string problem_of_shards(std::span<const ShardedState> shards) {
  if (shards.empty()) return "no shards were given";
  const ShardedState& first = shards.front();
  std::vector<int> found;
  for (const ShardedState& one : shards) {
    if (one.ranks != first.ranks || one.rule != first.rule || one.steps != first.steps) {
      return fmt::format(
          "the shards of ranks {} and {} are of different optimizers: {} after {} steps on {} "
          "ranks, {} after {} steps on {} ranks",
          first.rank, one.rank, first.rule, first.steps, first.ranks, one.rule, one.steps,
          one.ranks);
    }
    found.push_back(one.rank);
  }
  std::sort(found.begin(), found.end());
  for (int rank = 0; rank < first.ranks; ++rank) {
    if (std::binary_search(found.begin(), found.end(), rank)) continue;
    return fmt::format(
        "the shard of rank {} is missing: the state was saved by {} ranks, and "
        "those of {} were given",
        rank, first.ranks, join_text(found, ", "));
  }
  if (found.size() == static_cast<std::size_t>(first.ranks)) return {};
  return fmt::format("shards of ranks {} were given: one is there twice, or of no rank below {}",
                     join_text(found, ", "), first.ranks);
}

/// Merges the parts of one parameter's state. Throws InvalidArgument where some are missing.
StateTensor joined(std::vector<const StateTensor*> parts) {
  std::sort(parts.begin(), parts.end(),
            [](const auto* a, const auto* b) { return a->begin < b->begin; });
  StateTensor whole{parts[0]->parameter, parts[0]->kind, parts[0]->shape, 0, {}};
  for (const StateTensor* part : parts) {
    if (part->begin != end_of(whole) || part->shape != whole.shape) break;
    whole.values.insert(whole.values.end(), part->values.begin(), part->values.end());
  }
  if (end_of(whole) == element_count(whole.shape)) return whole;
  throw InvalidArgument(fmt::format("merging shards: the parts of {} make {} of its {} elements",
                                    text_of(key_of(whole)), end_of(whole),
                                    element_count(whole.shape)));
}

}  // namespace

void add_own(const Bucket& bucket, std::vector<StateTensor>& tensors) {
  const auto state = bucket.state();
  for (const Slot& slot : bucket.slots()) {
    for (std::size_t i = 0; i < state.size(); ++i) {
      add_part(slot, bucket.own(), bucket.kinds()[i], state[i], tensors);
    }
  }
}

void add_whole(const Bucket& bucket, const Context& context, std::vector<StateTensor>& tensors) {
  std::vector<Array> whole;
  for (const auto own : bucket.state()) {
    const auto sent = std::make_shared<std::vector<float>>(own.begin(), own.end());
    Submission submission;
    submission.request.kind = Collective::kAllgather;
    submission.request.name = fmt::format("the state of {}", bucket.slots().front().name);
    submission.request.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(sent->size())}}};
    submission.inputs = {sent->data()};
    submission.outputs = {nullptr};
    const OperationPtr operation = context.start(std::move(submission), sent);
    throw_if_error(context.wait(operation));
    const OwnedOutput& output = operation->owned_outputs()[0];
    whole.push_back({output.data, DType::kFloat32, output.shape});
  }
  for (const Slot& slot : bucket.slots()) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const auto values = whole[i].as<float>();
      add_part(slot, {0, values.size()}, bucket.kinds()[i], values, tensors);
    }
  }
}

std::string problem_of(const ShardedState& state, const ShardedState& mine) {
  if (state.rule != mine.rule) {
    return fmt::format("the state is of {}, but the optimizer is {}", state.rule, mine.rule);
  }
  if (std::string text = problem_of_place(state, mine); !text.empty()) return text;
  const auto given = by_key(state);
  for (const StateTensor& one : mine.tensors) {
    const auto found = given.find(key_of(one));
    const StateTensor* const tensor = found == given.end() ? nullptr : found->second;
    if (std::string text = problem_of_tensor(tensor, one); !text.empty()) return text;
  }
  return {};
}

void take(const ShardedState& state, Bucket& bucket) {
  const auto given = by_key(state);
  const auto into = bucket.state();
  for (const Slot& slot : bucket.slots()) {
    const Range part = overlap(slot, bucket.own());
    if (part.count() == 0) continue;
    for (std::size_t i = 0; i < into.size(); ++i) {
      const StateTensor& one = *given.at({slot.name, bucket.kinds()[i]});
      const std::size_t skipped = part.begin - slot.begin - static_cast<std::size_t>(one.begin);
      std::copy_n(one.values.begin() + static_cast<std::ptrdiff_t>(skipped), part.count(),
                  into[i].begin() + static_cast<std::ptrdiff_t>(part.begin - bucket.own().begin));
    }
  }
  bucket.take_state();
}

}  // namespace ronde::sharded

namespace ronde {

ShardedState merge_sharded_states(std::span<const ShardedState> shards) {
  if (std::string text = sharded::problem_of_shards(shards); !text.empty()) {
    throw InvalidArgument("merging shards: " + text);
  }
  std::map<sharded::Key, std::vector<const StateTensor*>> parts;
  for (const ShardedState& shard : shards) {
    for (const StateTensor& one : shard.tensors) parts[sharded::key_of(one)].push_back(&one);
  }
  ShardedState whole = shards.front();
  whole.rank = 0;
  whole.ranks = 1;
  whole.tensors.clear();
  for (auto& [key, found] : parts) whole.tensors.push_back(sharded::joined(std::move(found)));
  return whole;
}

}  // namespace ronde
