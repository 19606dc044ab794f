// ExactSampler: an epoch's indices, dealt to the ranks that there are.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "ronde/elastic.h"

namespace ronde::elastic {
namespace {

/// An order that is the same with every standard library. (Fisher and Yates, 1938.)
void shuffle(std::vector<std::int64_t>& order, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random() % left]);
  }
}

}  // namespace

ExactSampler::ExactSampler(Job& job, std::int64_t length, bool shuffled, std::uint64_t seed)
    : job_(job), length_(length), shuffled_(shuffled), seed_(seed) {
  if (length < 0) {
    throw InvalidArgument(fmt::format("the sampler's length is {}; allowed: from 0", length));
  }
}

std::vector<std::int64_t> ExactSampler::indices() const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(length_));
  std::iota(order.begin(), order.end(), 0);
  if (shuffled_) shuffle(order, seed_ + static_cast<std::uint64_t>(position_.epoch));
  std::vector<std::int64_t> mine;
  for (auto at = position_.processed + job_.rank(); at < length_; at += job_.size()) {
    mine.push_back(order[static_cast<std::size_t>(at)]);
  }
  return mine;
}

void ExactSampler::record_batch(std::int64_t batch_size) {
  if (batch_size < 1) {
    throw InvalidArgument(fmt::format("the batch's size is {}; allowed: from 1", batch_size));
  }
  position_.processed = std::min(position_.processed + batch_size * job_.size(), length_);
}

}  // namespace ronde::elastic
