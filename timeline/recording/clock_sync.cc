#include "timeline/recording/clock_sync.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "core/base/json.h"
#include "core/base/wire_codec.h"

namespace ronde {
namespace {

constexpr std::size_t kMostSamples = 1024;  // if no caller takes them
constexpr std::chrono::milliseconds kInterval{200};
constexpr std::string_view kEventName = "\"name\":\"clock\"";

enum class Kind : std::int64_t { kRequest = 1, kAnswer = 2 };

/// The message on the wire.
struct Message {
  Kind kind = Kind::kRequest;
  std::int64_t asked_ns = 0;     // t1
  std::int64_t came_ns = 0;      // t2
  std::int64_t answered_ns = 0;  // t3
  std::string boot;              // of the answering host

  static void fields(auto& wire, auto& self) {
    wire(self.kind, self.asked_ns, self.came_ns, self.answered_ns, self.boot);
  }
};

}  // namespace

ClockSync::ClockSync(std::string boot_id, Clock clock)
    : boot_id_(std::move(boot_id)), clock_(std::move(clock)) {}

std::vector<std::byte> ClockSync::request() const {
  Message message;
  message.asked_ns = clock_();
  return encode_wire(message);
}

std::optional<std::vector<std::byte>> ClockSync::on_message(std::span<const std::byte> bytes) {
  const std::int64_t came_ns = clock_();
  auto read = decode_wire<Message>(bytes, "clock message");
  if (!read.ok()) return std::nullopt;
  Message& message = *read;
  if (message.kind == Kind::kRequest) {
    message.kind = Kind::kAnswer;
    message.came_ns = came_ns;
    message.boot = boot_id_;
    message.answered_ns = clock_();
    return encode_wire(message);
  }
  if (message.kind != Kind::kAnswer) return std::nullopt;
  ClockSample sample;
  const std::int64_t away = came_ns - message.asked_ns;
  const std::int64_t there = message.answered_ns - message.came_ns;
  sample.local_ns = message.asked_ns + away / 2;
  sample.offset_ns = message.came_ns + there / 2 - sample.local_ns;
  sample.error_ns = (away - there + 1) / 2;
  sample.reference = std::move(message.boot);
  MutexLock lock(mutex_);
  if (samples_.size() < kMostSamples) samples_.push_back(std::move(sample));
  return std::nullopt;
}

void ClockSync::start(Send send) {
  const MutexLock lock(send_mutex_);
  send_ = std::move(send);
}

void ClockSync::stop() { start(nullptr); }

std::vector<ClockSample> ClockSync::take() {
  {
    const MutexLock lock(send_mutex_);
    if (send_ && now() >= next_) {
      next_ = now() + kInterval;
      send_(0, [this] { return request(); });
    }
  }
  MutexLock lock(mutex_);
  return std::exchange(samples_, {});
}

std::string format_clock_sample(int rank, const ClockSample& sample) {
  Json args;
  ClockSample::fields(sample, [&](const char* name, const auto& field) { args[name] = field; });
  return fmt::format(",\n{{{},\"ph\":\"M\",\"pid\":{},\"args\":{}}}", kEventName, rank,
                     print_json(args));
}

std::optional<ClockSample> parse_clock_sample(std::string_view event) {
  if (event.find(kEventName) == std::string_view::npos) return std::nullopt;
  const auto parsed = parse_json(event);
  if (!parsed.is_object() || parsed.value("ph", Json()) != "M") return std::nullopt;
  const auto args = parsed.value("args", Json::object());
  ClockSample sample;
  bool whole = args.is_object();
  ClockSample::fields(sample, [&](const char* name, auto& field) {
    whole = whole && read_member(args, name, field);
  });
  return whole ? std::optional(std::move(sample)) : std::nullopt;
}

}  // namespace ronde
