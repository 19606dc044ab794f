// A small job of members whose frames are delivered at once, and the requests tests submit.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/protocol/member.h"

namespace ronde {

/// Ranks 0 .. size-1, `per_host` of them on each host.
class TestJob {
 public:
  explicit TestJob(int size, int per_host = 64, MemberOptions options = {}) {
    for (int rank = 0; rank < size; ++rank) {
      options.members.push_back(rank);
      options.hosts.push_back(rank / per_host);
    }
    for (int rank = 0; rank < size; ++rank) {
      options.rank = rank;
      ranks_.push_back(std::make_unique<Member>(options));
    }
  }

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  Member& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  /// Delivers frames until there are none; returns how many. Refused ones are counted.
  std::size_t deliver(TimePoint now = {}) {
    std::size_t delivered = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (int from = 0; from < size(); ++from) {
        std::vector<OutFrame> frames;
        at(from).take_frames(frames);
        for (const OutFrame& frame : frames) {
          moved = true;
          ++delivered;
          bytes_ += frame.bytes.size();
          largest_ = std::max(largest_, frame.bytes.size());
          if (!at(frame.to).on_frame(from, frame.bytes, now).ok()) ++refused_;
        }
      }
    }
    return delivered;
  }

  /// The operations agreed on `rank` since the last call.
  std::vector<Agreed> take(int rank) {
    std::vector<Batch> batches;
    at(rank).take_batches(batches);
    std::vector<Agreed> items;
    for (Batch& batch : batches) {
      for (Agreed& item : batch.items) items.push_back(std::move(item));
    }
    return items;
  }

  /// Warnings on `rank` since the last call.
  std::vector<std::string> warnings(int rank) {
    std::vector<std::string> out;
    at(rank).take_warnings(out);
    return out;
  }

  [[nodiscard]] std::size_t refused() const { return refused_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t largest_frame() const { return largest_; }

 private:
  std::vector<std::unique_ptr<Member>> ranks_;
  std::size_t refused_ = 0;
  std::size_t bytes_ = 0;
  std::size_t largest_ = 0;
};

inline Request request_for(Collective kind, std::string name, Shape shape = {2, 3}) {
  Request request;
  request.name = std::move(name);
  request.kind = kind;
  if (kind != Collective::kBarrier) request.tensors = {{DType::kFloat32, std::move(shape)}};
  request.root = 0;
  request.call_site = "train.py:10";
  return request;
}

inline Request allreduce(std::string name, Shape shape = {2, 3}) {
  return request_for(Collective::kAllreduce, std::move(name), std::move(shape));
}

/// Lets time pass on all ranks, each asked when its deadlines have come.
inline void pass_to(TestJob& job, TimePoint now) {
  for (int rank = 0; rank < job.size(); ++rank) {
    if (job.at(rank).next_deadline() <= now) job.at(rank).on_time(now);
  }
  job.deliver(now);
}

inline TimePoint at_ms(int ms) { return TimePoint{} + std::chrono::milliseconds(ms); }

}  // namespace ronde
