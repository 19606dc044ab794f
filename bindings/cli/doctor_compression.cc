#include <fmt/format.h>

#include <array>
#include <numeric>
#include <vector>

#include "bindings/cli/doctor.h"
#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/runtime.h"
#include "ops/compression/auto/cost_model.h"
#include "ops/execution/auto_compression.h"

namespace ronde {
namespace {

constexpr std::size_t kBeyondCaches = std::size_t{4} << 20;  // elements: 16 MiB
constexpr int kRepeats = 7;
constexpr std::array kAccuracies{Accuracy::kSafe, Accuracy::kAggressive};

/// A link, in the units of `tc` and vendors.
struct NamedLink {
  const char* name;
  LinkCost cost;
};

constexpr std::array kLinks{
    NamedLink{"100 Mbit/s", {200e-6, 80e-9}}, NamedLink{"1 Gbit/s", {100e-6, 8e-9}},
    NamedLink{"4 Gbit/s", {100e-6, 2e-9}}, NamedLink{"10 Gbit/s", {60e-6, 0.8e-9}},
    NamedLink{"25 Gbit/s", {50e-6, 0.32e-9}}};

double gigabytes(double element_s) { return element_s > 0 ? 4e-9 / element_s : 0; }

void print_speeds() {
  fmt::print("One core, 16 MiB of fp32, memcpy each time beside it\n");
  fmt::print("  {:<9} {:>12} {:>10} {:>12} {:>10}\n", "codec", "encode GB/s", "of memcpy",
             "decode GB/s", "of memcpy");
  for (const CodecRow* row : kCodecRows) {
    if (row->payload == Payload::kNone || row->draws) continue;  // nothing to compute
    const CodecKind kind = row->defaults.kind;
    const double copy = measure_memcpy(kBeyondCaches, kRepeats);
    const CodecSpeed speed = measure_codec(kind, kBeyondCaches, kRepeats);
    fmt::print("  {:<9} {:>12.2f} {:>8.0f} %", row->name, gigabytes(speed.encode_s),
               100 * copy / speed.encode_s);
    if (speed.decode_s > 0) {
      fmt::print(" {:>12.2f} {:>8.0f} %", gigabytes(speed.decode_s), 100 * copy / speed.decode_s);
    }
    fmt::print("\n");
  }
}

void print_predictions() {
  const CodecCosts codecs = measure_codecs(candidates(Accuracy::kAggressive, sizeof(float)));
  const std::array shapes{Shape{256, 1024}, Shape{2560, 2560}};
  for (const Accuracy accuracy : kAccuracies) {
    fmt::print("\nauto:accuracy={} would choose, by links of\n", to_string(accuracy));
    for (const NamedLink& link : kLinks) {
      fmt::print("  {:<11}", link.name);
      for (const Shape& shape : shapes) {
        const TensorLoad load = load_of({&shape, 1}, sizeof(float));
        fmt::print(" {:.3g} MB: {};", 4e-6 * load.elements,
                   explain_choice(accuracy, load, link.cost, codecs));
      }
      fmt::print("\n");
    }
  }
}

/// Sends a matrix until `auto` has tried all candidates.
Status try_matrix(RawGroup& group, Accuracy accuracy, std::int64_t side) {
  std::vector<float> values(static_cast<std::size_t>(side * side));
  std::iota(values.begin(), values.end(), 1.0F);
  Bundle bundle;
  bundle.kind = Collective::kAllreduce;
  bundle.op = ReduceOp::kAverage;
  bundle.compression = fmt::format("auto:accuracy={}", to_string(accuracy));
  bundle.keys = {fmt::format("doctor.{}", side)};
  bundle.tensors.resize(1);
  bundle.tensors[0].in = bundle.tensors[0].out = values.data();
  bundle.tensors[0].shape = {side, side};
  for (int i = 0; i < 12; ++i) RONDE_RETURN_IF_ERROR(group.run(bundle));
  return {};
}

Status examine_link(const Config& config) {
  RONDE_ASSIGN_OR_RETURN(const auto runtime, Runtime::create(config));
  std::vector<int> everyone(static_cast<std::size_t>(runtime->size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  RONDE_ASSIGN_OR_RETURN(const auto group, runtime->groups().open(everyone));
  for (const Accuracy accuracy : kAccuracies) {
    for (const std::int64_t side : {64, 512, 1024}) {
      RONDE_RETURN_IF_ERROR(try_matrix(*group, accuracy, side));
    }
  }
  if (runtime->rank() == 0) {
    fmt::print("\nMeasured between these {} ranks, data over {}\n", runtime->size(),
               group->last_path());
    for (const std::string& line : group->explain_compression()) fmt::print("  {}\n", line);
  }
  return {};
}

}  // namespace

Status examine_compression(const Config& config) {
  if (config.rank == 0) {
    print_speeds();
    print_predictions();
  }
  return config.size > 1 ? examine_link(config) : Status();
}

}  // namespace ronde
