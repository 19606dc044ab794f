#include "bindings/cli/launch/console.h"

namespace ronde {
namespace {

constexpr std::chrono::milliseconds kPartialLineDelay{100};

}  // namespace

void Console::pass_on(int rank, int stream, std::string_view bytes) {
  (stream == STDERR_FILENO ? error_ : output_).feed(rank, bytes);
  const std::string complaint = files_.append(rank, bytes);
  if (!complaint.empty()) say(complaint);
  if (output_.has_partial() || error_.has_partial()) partial_deadline_ = now() + kPartialLineDelay;
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
  output_.flush_partial();
  error_.flush_partial();
}

void Console::on_time(TimePoint time) {
  if (time < partial_deadline_) return;
  partial_deadline_ = kForever;
  flush_partial();
}

}  // namespace ronde
