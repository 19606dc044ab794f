#include "core/engine/peers/exchange_round.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace ronde {

void ExchangeRound::begin(int self, std::vector<int> ranks, TreePlace place, std::string mine) {
  ranks_ = std::move(ranks);
  place_ = std::move(place);
  values_[self] = std::move(mine);
}

void ExchangeRound::add(int child, ExchangedValues&& values, bool last) {
  values_.merge(values);
  if (last) complete_.insert(child);
}

void ExchangeRound::add_all(ExchangedValues&& values, bool last) {
  values_.merge(values);
  if (!last || ended()) return;
  std::vector<std::string> all;
  for (const int rank : ranks_) {
    const auto found = values_.find(rank);
    if (found == values_.end()) {
      return fail({Code::kInternal, fmt::format("rank {} has no value in the exchange", rank)});
    }
    all.push_back(found->second);
  }
  outcome_ = std::move(all);
}

void ExchangeRound::fail(const Status& why) {
  if (!ended()) outcome_ = why;
}

std::vector<int> ExchangeRound::waits_for() const {
  std::vector<int> waited_for;
  std::copy_if(place_.children.begin(), place_.children.end(), std::back_inserter(waited_for),
               [this](int child) { return !complete_.contains(child); });
  return waited_for;
}

void ExchangeRound::take_answer(const std::vector<int>& missing, int unanswered) {
  missing_.insert(missing.begin(), missing.end());
  unanswered_ += unanswered;
  asked_ = true;
}

}  // namespace ronde
