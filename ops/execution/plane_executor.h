// The class behind create_executor(), which several files implement: executor.cc, and
// executor_compressed.cc for what compression adds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/device/device_runner.h"
#include "ops/execution/auto_compression.h"
#include "ops/execution/compressor.h"
#include "ops/execution/executor.h"
#include "ops/execution/phases.h"
#include "ops/execution/work_runner.h"

namespace ronde {

/// Executes bundles; members marked "kept" are vectors whose memory is used again.
class PlaneExecutor final : public CollectiveExecutor {
 public:
  explicit PlaneExecutor(ExecutorOptions& options)
      : compressor_(options),
        deterministic_(options.deterministic),
        runner_(options),
        device_({.open = std::move(options.open_device),
                 .rank = options.rank,
                 .size = options.size,
                 .events = options.events,
                 .lane = PhaseLanes(options.set).device},
                runner_),
        events_(options.events),
        phase_lanes_(options.set),
        rank_(options.rank),
        size_(options.size) {}

  Status execute(const Bundle& bundle, const AbortToken& abort) override {
    if (abort.aborted()) return abort.status();
    RONDE_RETURN_IF_ERROR(check(bundle));
    segments_.clear();
    part_bytes_.clear();
    allocation_ = {};
    const bool on_device = bundle.device.kind != DeviceKind::kCpu;
    if (on_device) RONDE_RETURN_IF_ERROR(device_.begin(bundle, abort));
    RONDE_RETURN_IF_ERROR(execute_kind(bundle, abort));
    if (on_device) RONDE_RETURN_IF_ERROR(device_.end(bundle, abort));
    return allocation_;
  }

  std::string last_path() const override {
    return last_on_device_ ? device_.path() : runner_.path(last_route_);
  }
  bool polls() const noexcept override { return runner_.polls(); }
  CompressionFacts last_compression() const override { return last_facts_; }
  std::vector<std::string> explain_compression() const override { return auto_.explain(); }

 private:
  Status check(const Bundle& bundle) const;
  Status execute_kind(const Bundle& bundle, const AbortToken& abort);
  Status execute_whole(const Bundle& bundle, const AbortToken& abort);
  Status execute_compressed(const Bundle& bundle, std::size_t bytes, const AbortToken& abort);
  Status compress_staged(const Bundle& bundle, Work work, std::size_t bytes,
                         const AbortToken& abort);
  Status compress_on_device(const Bundle& bundle, Work work, std::size_t bytes,
                            const AbortToken& abort);
  Status compress(const Bundle& bundle, const Work& work, std::size_t bytes,
                  const AbortToken& abort);
  Result<bool> warms_up(const Bundle& bundle, const AbortToken& abort);
  Status execute_auto(const Bundle& bundle, std::size_t bytes, const AbortToken& abort);
  GroupDoor door(const AbortToken& abort);
  Status run_probe(std::size_t bytes, const AbortToken& abort);
  void explain(const AutoChoice& choice, std::size_t bytes) const;
  Status execute_reduce_scatter(const Bundle& bundle, const AbortToken& abort);
  Status execute_scatter(const Bundle& bundle, const AbortToken& abort);
  Status execute_gathering(const Bundle& bundle, const AbortToken& abort);
  Status execute_alltoall(const Bundle& bundle, const AbortToken& abort);

  void add_gathered(const Bundle& bundle, std::size_t index);
  Status run_alltoall(const Bundle& bundle, std::size_t index, std::span<const std::int64_t> words,
                      const AbortToken& abort);
  Status exchange_words(const AbortToken& abort);
  Work work_of(const Bundle& bundle) const;
  Status run(const Bundle& bundle, const Work& work, std::size_t bytes, const AbortToken& abort);

  Status move(const Work& work, const AbortToken& abort, Phases* phases);

  bool is_root(const Bundle& bundle) const { return rank_ == bundle.root; }
  std::byte* output(const BundleTensor& tensor, const Shape& shape);
  std::byte* output_rows(const BundleTensor& tensor, std::int64_t rows);

  Compressor compressor_;
  AutoCompression auto_;
  const bool deterministic_;
  WorkRunner runner_;
  DeviceRunner device_;
  const EventGate* const events_;
  const PhaseLanes phase_lanes_;
  const int rank_;
  const int size_;
  Route last_route_;
  bool last_on_device_ = false;
  CompressionFacts last_facts_;
  std::int64_t noting_ns_ = 0;           // what measuring losses took, since set to 0
  Status allocation_;                    // the first output that could not be allocated
  std::vector<Segment> segments_;        // kept
  std::vector<std::string_view> lanes_;  // kept: of the bundle's tensors
  std::vector<std::size_t> part_bytes_, send_bytes_, recv_bytes_;  // kept
  std::vector<std::int64_t> words_, all_words_;                    // kept: extents and splits
};

}  // namespace ronde
