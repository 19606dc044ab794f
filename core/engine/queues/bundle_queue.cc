#include "core/engine/queues/bundle_queue.h"

#include <algorithm>
#include <utility>

#include "core/engine/queues/fusion.h"
#include "core/ports/executor.h"

namespace ronde {
namespace {

constexpr std::uint64_t kPacedInFlight = 2;  // one runs, and the next is there when it ends

}  // namespace

BundleQueue::BundleQueue(BundleQueueOptions options)
    : options_(std::move(options)),
      turns_(*options_.launches),
      worker_(worker_options(std::move(options_.worker))) {}

QueueWorkerOptions BundleQueue::worker_options(QueueWorkerOptions options) {
  options.paced_ended = [this, role = options.role] {
    paced_ended_.fetch_add(1, std::memory_order_acq_rel);
    if (options_.coordinates) role->request_step();  // to let more go
  };
  return options;
}

void BundleQueue::add(QueuedBundle whole) {
  if (!whole.result.empty()) return put(std::move(whole));
  const std::size_t limit = options_.partition_bytes;
  const std::size_t bytes = agreed_bytes(whole);
  // Nothing that follows could overtake a bundle that is not worth a second partition.
  whole.paced = limit > 0 && bytes > limit / 2;
  if (limit == 0 || bytes <= limit) return put(std::move(whole));
  for (QueuedBundle& part : cut_bundle(std::move(whole), limit)) put(std::move(part));
}

void BundleQueue::put(QueuedBundle bundle) {
  bundle.id = (static_cast<std::uint64_t>(options_.id) << kBundleBits) | ++bundles_;
  if (!bundle.paced && order_.empty()) return hand_over(std::move(bundle));
  const std::int32_t priority = bundle.priority;
  const bool paced = bundle.paced;
  order_.add(std::move(bundle), priority, paced);
}

void BundleQueue::release(std::uint32_t bundles) {
  order_.release(bundles);
  release_next();
}

void BundleQueue::open() {
  order_.open();
  release_next();
}

void BundleQueue::release_next() {
  while (auto bundle = order_.next()) hand_over(std::move(*bundle));
}

std::uint32_t BundleQueue::pace() {
  if (order_.paced() == 0) return 0;
  const std::uint64_t in_flight = paced_released_ - paced_ended_.load(std::memory_order_acquire);
  if (in_flight >= kPacedInFlight) return 0;
  const auto more = std::min<std::uint64_t>(kPacedInFlight - in_flight, order_.paced());
  paced_released_ += more;
  return static_cast<std::uint32_t>(more);
}

/// Gives device work its turn, whose place the job's order of launches decides.
void BundleQueue::hand_over(QueuedBundle bundle) {
  if (bundle.device.kind != DeviceKind::kCpu && options_.members > 1) {
    if (options_.id == kGlobalSet) {
      turns_.place_next();
    } else if (options_.coordinates && !worker_.aborted()) {
      options_.on_device_work();
    }
    bundle.turn = turns_.take();
  }
  released_.push_back(std::move(bundle));
}

void BundleQueue::run(bool alone) {
  for (QueuedBundle& bundle : released_) {
    const bool small = input_bytes(bundle) <= options_.inline_bytes;
    worker_.run_or_queue(std::move(bundle), alone && small);
  }
  released_.clear();
}

}  // namespace ronde
