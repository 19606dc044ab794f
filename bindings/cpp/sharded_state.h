// The state of a sharded optimizer, as it is saved and loaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bindings/cpp/sharded_bucket.h"
#include "ronde/sharded.h"

namespace ronde::sharded {

constexpr std::string_view name_of(const Sgd&) { return "sgd"; }
constexpr std::string_view name_of(const Adam&) { return "adam"; }
constexpr std::string_view name_of(const AdamW&) { return "adamw"; }

/// Adds this rank's part of the state of a bucket's parameters.
void add_own(const Bucket& bucket, std::vector<StateTensor>& tensors);
/// Adds the whole state of a bucket's parameters. Collective.
void add_whole(const Bucket& bucket, const Context& context, std::vector<StateTensor>& tensors);
/// The problem of loading a state on the rank that has `mine`; empty: it can be loaded.
[[nodiscard]] std::string problem_of(const ShardedState& state, const ShardedState& mine);
/// Gives the bucket its part of a state without a problem.
void take(const ShardedState& state, Bucket& bucket);

}  // namespace ronde::sharded
