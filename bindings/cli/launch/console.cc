#include "bindings/cli/launch/console.h"

#include <fmt/format.h>

#include "bindings/cli/launch/failure_report.h"
#include "bindings/cli/launch/traceback.h"

namespace ronde {
namespace {

constexpr std::chrono::milliseconds kPartialLineDelay{100};

}  // namespace

void Console::pass_on(int rank, int stream, std::string_view bytes) {
  if (stream == STDERR_FILENO) {
    error_.feed(rank, held_.feed(rank, bytes, now()));
  } else {
    output_.feed(rank, bytes);
  }
  const std::string complaint = files_.append(rank, bytes);
  if (!complaint.empty()) say(complaint);
  if (output_.has_partial() || error_.has_partial() || held_.has_partial())
    partial_deadline_ = now() + kPartialLineDelay;
}

void Console::print(int rank, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) error_.feed(rank, line + "\n");
}

void Console::say_after_output(const std::string& text) {
  flush_partial();
  say(text);
}

void Console::watch(PollSet& set, const std::function<void()>& on_gone) {
  set.add(output_.queue().empty() ? -1 : output_.fd(), POLLOUT, [this, on_gone] {
    if (!output_.write()) on_gone();
  });
  set.add(error_.queue().empty() ? -1 : error_.fd(), POLLOUT, [this] { (void)error_.write(); });
}

void Console::abandon_stuck() noexcept {
  if (output_.queue().full()) output_.abandon();
  if (error_.queue().full()) error_.abandon();
}

void Console::flush_partial() {
  for (const auto& [rank, text] : held_.partials()) error_.feed(rank, text);
  output_.flush_partial();
  error_.flush_partial();
}

/// Prints the error of a rank that goes on with its work, or takes its time to end.
void Console::print_held(int rank, const std::string& text) {
  const auto error = read_error(text);
  if (!error || error->trailing > 0) return pass_on_held(rank, text);
  if (error->error.consequence) return print(rank, {one_line(*error)});
  print(rank, error->shorter);
  if (error->left_out == 0) return;
  print(rank, {fmt::format("(--verbose shows {} more line{})", error->left_out,
                           error->left_out == 1 ? "" : "s")});
}

void Console::on_time(TimePoint time) {
  for (const auto& [rank, text] : held_.due(time)) print_held(rank, text);
  if (time < partial_deadline_) return;
  partial_deadline_ = kForever;
  flush_partial();
}

}  // namespace ronde
