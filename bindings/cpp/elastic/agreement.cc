#include "bindings/cpp/elastic/agreement.h"

#include <array>
#include <span>

#include "bindings/cpp/elastic/leaving.h"

namespace ronde::elastic {
namespace {

constexpr std::size_t kRowSize = 9;
constexpr std::int64_t kNoCheckpoint = 0;

/// Names and shapes are those of Python's workers.
void take_maxima(Job& job, const char* name, std::span<std::int64_t> values) {
  job.allreduce(name, tensor(values), {.op = ReduceOp::kMax});
}

bool has(std::optional<Change> change, Change bit) {
  return change && (static_cast<int>(*change) & static_cast<int>(bit)) != 0;
}

std::optional<Change> change_of(bool any, bool added, bool removed) {
  if (!any) return std::nullopt;
  return static_cast<Change>((added ? 1 : 0) | (removed ? 2 : 0));
}

}  // namespace

Agreement agree(Job& job, std::optional<Change> change, bool returned) {
  const bool leaves = asked_to_leave();
  std::array<std::int64_t, 4> facts = {change || leaves, has(change, Change::kRemoved) || leaves,
                                       has(change, Change::kAdded), !returned};
  take_maxima(job, "elastic.agreement", facts);
  return {change_of(facts[0] != 0, facts[2] != 0, facts[1] != 0), facts[3] != 0};
}

std::int64_t newest_step(Job& job, std::int64_t step) {
  take_maxima(job, "elastic.step", {&step, 1});
  return step;
}

std::vector<StartRow> exchange_starts(Job& job, const StartRow& mine) {
  const std::array<std::int64_t, kRowSize> row = {
      mine.holds_state, mine.restored, mine.skip_sync,      mine.certain,      mine.step,
      mine.older_step,  kNoCheckpoint, mine.adopted.newest, mine.adopted.older};
  const Array all =
      job.allgather_async("elastic.start", tensor(row.data(), {1, kRowSize})).output();
  const auto values = all.as<std::int64_t>();
  std::vector<StartRow> rows;
  for (std::size_t at = 0; at < values.size(); at += kRowSize) {
    rows.push_back({values[at] != 0,
                    values[at + 1] != 0,
                    values[at + 2] != 0,
                    values[at + 3],
                    values[at + 4],
                    values[at + 5],
                    {values[at + 7], values[at + 8]}});
  }
  return rows;
}

void meet(Job& job) {
  std::int64_t zero = 0;
  take_maxima(job, "elastic.started", {&zero, 1});
}

}  // namespace ronde::elastic
