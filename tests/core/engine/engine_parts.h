// The parts of an engine over a channel without ranks behind it. Tests drive them by hand.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/driving/progress.h"
#include "tests/core/engine/fake_channel.h"

namespace ronde::test {

/// Counts bundles and does nothing.
class CountingExecutor final : public Executor {
 public:
  explicit CountingExecutor(std::atomic<int>& executed) : executed_(executed) {}
  Status execute(const Bundle&, const AbortToken&) override {
    ++executed_;
    return {};
  }

 private:
  std::atomic<int>& executed_;
};

/// Rank 0 of two, unless told otherwise. Its thread is the driving thread.
struct EngineParts {
  explicit EngineParts(int rank = 0, int size = 2) : channel(rank, size) {}
  ~EngineParts() { queues.clear(); }
  EngineParts(const EngineParts&) = delete;
  EngineParts& operator=(const EngineParts&) = delete;

  SetQueueOptions queue_options(SetId id, std::vector<int> members) {
    SetQueueOptions options;
    options.id = id;
    options.member.rank = channel.topology().rank;
    options.member.hosts.assign(members.size(), 0);
    options.member.members = std::move(members);
    options.inline_bytes = 1 << 16;
    options.executor = std::make_unique<CountingExecutor>(executed);
    options.abort = abort;
    options.records = &records;
    options.meter = &meter;
    options.role = &role;
    options.launches = &launch_order;
    options.left_behind = &left_behind;
    options.coordinator = &queues.launches();
    return options;
  }
  /// A queue that is known and started.
  SetQueuePtr add_queue(SetId id, std::vector<int> members) {
    const auto queue = std::make_shared<SetQueue>(queue_options(id, std::move(members)));
    queues.add(queue);
    REQUIRE(queues.start(queue).ok());
    return queue;
  }
  /// As Engine::fail().
  void break_job(const Status& reason) {
    abort->abort(reason);
    role.request_step();
  }
  /// Of the frames sent to `rank`: the kinds.
  std::vector<EnginePart> kinds_sent_to(int rank) const {
    std::vector<EnginePart> kinds;
    for (const FakeChannel::Frame& frame : channel.sent) {
      if (frame.rank == rank) kinds.push_back(read_header(frame.bytes)->kind);
    }
    return kinds;
  }

  FakeChannel channel;
  std::shared_ptr<AbortToken> abort = std::make_shared<AbortToken>();
  OperationRing records;
  Meter meter;
  LaunchOrder launch_order;
  std::atomic<int> executed = 0;
  int lost_ranks = 0;
  int stalls = 0;

  LeftBehind left_behind{[this] { ++lost_ranks; }};
  DrivingRole role{channel};
  TaskQueue tasks{role, *abort, records, meter};
  FrameSender sender{channel, *abort};
  Queues queues{sender};
  KeyValueExchange exchange{sender};
  Messages messages{tasks, sender};
  Membership membership{tasks, sender, queues, messages};
  std::vector<std::byte> clock;                        // the last message that came
  std::optional<std::vector<std::byte>> clock_answer;  // to each
  Router router{role,
                sender,
                queues,
                exchange,
                messages,
                membership,
                [this](std::span<const std::byte> message) {
                  clock.assign(message.begin(), message.end());
                  return clock_answer;
                }};
  Progress progress{channel, tasks, router, queues, membership, [this] { ++stalls; }};
};

/// Takes steps on both of two ranks, and carries their frames, until there is nothing to do.
inline void exchange_frames(EngineParts& rank0, EngineParts& rank1) {
  const auto carry = [](EngineParts& from, int rank, EngineParts& to) {
    for (FakeChannel::Frame& frame : from.channel.sent) {
      to.channel.incoming.push_back({rank, std::move(frame.bytes)});
    }
    from.channel.sent.clear();
  };
  bool progressed = true;
  while (progressed) {
    progressed = rank0.progress.step();
    progressed |= rank1.progress.step();
    carry(rank0, 0, rank1);
    carry(rank1, 1, rank0);
    progressed |= !rank0.channel.incoming.empty() || !rank1.channel.incoming.empty();
  }
}

/// A frame between engines.
inline std::vector<std::byte> frame_of(EnginePart kind, std::uint64_t id,
                                       std::span<const std::byte> payload = {}) {
  FrameHeader header;
  header.kind = kind;
  header.id = id;
  std::vector<std::byte> buffer;
  make_frame(buffer, header, payload);
  return buffer;
}

}  // namespace ronde::test
