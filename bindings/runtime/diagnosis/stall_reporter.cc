#include "bindings/runtime/diagnosis/stall_reporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "bindings/runtime/diagnosis/service_thread.h"
#include "core/base/log.h"
#include "core/base/thread_name.h"
#include "core/protocol/stall_facts.h"

namespace ronde::diagnosis {
namespace {

/// As long as `ronde doctor --job` waits.
constexpr std::chrono::seconds kQueryTime{3};

std::string shown(const LateOperation& late) {
  const std::string name = fmt::format("{} {}", late.operation.kind, shown_name(late.operation));
  return late.others == 0 ? name : fmt::format("{} and {} more", name, late.others);
}

}  // namespace

std::string late_text(const LateOperation& late, const Dump& own,
                      const std::vector<RankAnswer>& answers) {
  const bool many = late.others > 0;
  const std::string beginning =
      fmt::format("{} {} {} s", shown(late), many ? "have run for" : "has run for",
                  late.late_ns / 1'000'000'000);
  const std::string ranks = awaited_ranks({&own, &late.operation}, answers);
  if (ranks.empty()) {
    return fmt::format("{}; all ranks of {} that answer have begun {}", beginning, own.host,
                       many ? "them" : "it");
  }
  return fmt::format("{} and {} for {}", beginning, many ? "wait" : "waits", ranks);
}

bool is_reported_below(const DumpOperation& operation, int rank,
                       const std::vector<RankAnswer>& answers) {
  const auto waits_alike = [&](const DumpOperation& other) {
    return other.set == operation.set && other.name == operation.name && !other.done() &&
           other.call == operation.call && (other.started_ns != 0) == (operation.started_ns != 0);
  };
  return std::any_of(answers.begin(), answers.end(), [&](const RankAnswer& answer) {
    return answer.who.rank < rank && answer.dump &&
           std::any_of(answer.dump->operations.begin(), answer.dump->operations.end(), waits_alike);
  });
}

StallReporter::~StallReporter() {
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void StallReporter::report(DiagnosticsAddress self, Dump own, std::vector<LateOperation> late) {
  if (thread_.joinable()) thread_.join();  // its report has ended
  busy_.store(true, std::memory_order_release);
  try {
    thread_ = start_without_signals([this, self = std::move(self), own = std::move(own),
                                     late = std::move(late), stop = stop_.get_token()] {
      name_this_thread("ronde-stall");
      run(self, own, late, stop);
      busy_.store(false, std::memory_order_release);
    });
  } catch (const std::system_error& error) {
    busy_.store(false, std::memory_order_release);
    log(LogLevel::kWarning, "no thread to look into a stall: {}", error.what());
  }
}

void StallReporter::run(const DiagnosticsAddress& self, const Dump& own,
                        const std::vector<LateOperation>& late, const std::stop_token& stop) {
  std::vector<DiagnosticsAddress> others = find_ranks();
  std::erase_if(others, [&](const DiagnosticsAddress& rank) {
    return rank.job != self.job || rank.size != self.size || rank.rank == self.rank;
  });
  const auto answers = ask_ranks(others, kDiagnosticsRequest, now() + kQueryTime, stop);
  if (stop.stop_requested()) return;
  for (const LateOperation& operation : late) {
    if (is_reported_below(operation.operation, own.rank, answers)) continue;
    const std::string text = late_text(operation, own, answers);
    if (!operation.over_limit) {
      log(LogLevel::kWarning, "{}; {}", text, kStallHint);
    } else if (fail_) {
      fail_({Code::kStalled, text + "; given up"});
    }
  }
}

}  // namespace ronde::diagnosis
