// The C++ API never reads or writes beside the memory that it is given: seeded calls, right and
// wrong, on two ranks, with guards round each buffer.
#include <doctest/doctest.h>
#include <ronde/ronde.h>
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/backends/net/processes.h"

namespace ronde {
namespace {

using net::all_good;
using net::run_ranks;
using net::unique_job_id;

constexpr std::size_t kGuard = 64;
constexpr std::byte kCanary{0xA5};
constexpr std::size_t kMost = 600;  // elements

/// Floats with canaries before and behind them.
class Guarded {
 public:
  Guarded() : bytes_(2 * kGuard + kMost * sizeof(float), kCanary) {}
  /// Makes all but `count` elements canaries.
  float* lay(std::size_t count, float value) {
    std::fill(bytes_.begin(), bytes_.end(), kCanary);
    std::fill_n(data(), count, value);
    return data();
  }
  [[nodiscard]] float* data() { return reinterpret_cast<float*>(bytes_.data() + kGuard); }
  /// True if `count` elements have this value and nothing else is touched.
  [[nodiscard]] bool holds(std::size_t count, float value) {
    const std::span<float> all(data(), count);
    const auto rest = bytes_.begin() + static_cast<std::ptrdiff_t>(kGuard + count * sizeof(float));
    const auto is_canary = [](std::byte byte) { return byte == kCanary; };
    return std::all_of(all.begin(), all.end(), [&](float one) { return one == value; }) &&
           std::all_of(bytes_.begin(), bytes_.begin() + kGuard, is_canary) &&
           std::all_of(rest, bytes_.end(), is_canary);
  }

 private:
  std::vector<std::byte> bytes_;
};

/// The defects of a call. Both ranks make the same, so none waits for the other.
enum class Defect { kNone, kNullInput, kOverlap, kUnaligned, kNegative, kHuge, kDtype, kCount };

/// A tensor of `count` elements with one defect.
Tensor spoiled(Defect defect, float* in, float* out, std::int64_t count) {
  Tensor given = tensor(static_cast<const float*>(in), out, {count});
  if (defect == Defect::kNullInput) given.in = nullptr;
  if (defect == Defect::kOverlap) given.out = in + 1;
  if (defect == Defect::kUnaligned) given.out = reinterpret_cast<std::byte*>(out) + 1;
  if (defect == Defect::kNegative) given.shape = {-count};
  if (defect == Defect::kHuge) given.shape = {count, std::int64_t{1} << 62};
  if (defect == Defect::kDtype) given.dtype = static_cast<DType>(200);
  return given;
}

/// Calls one collective of a job or of a raw group; true if it refused the tensor.
template <typename Caller>
bool refuses(Caller call) {
  try {
    call();
    return false;
  } catch (const InvalidArgument&) {
    return true;
  }
}

/// Both bindings of a rank.
struct Bindings {
  Job job = init();
  Group group = job.group();

  void run(unsigned which, const Tensor& tensor) {
    switch (which) {
      case 0:
        return job.allreduce("a", tensor, {.op = ReduceOp::kSum});
      case 1:
        return job.broadcast("b", tensor, 0);
      case 2:
        return job.reduce_async("r", tensor, 0, {.op = ReduceOp::kSum}).wait();
      case 3:
        return group.allreduce(tensor, {.op = ReduceOp::kSum});
      default:
        return group.broadcast(tensor, 0);
    }
  }
};

int check_bindings(int rank) {
  Bindings bindings;
  std::mt19937 random(35);  // the same calls on both ranks
  Guarded in;
  Guarded out;
  for (int round = 0; round < 600; ++round) {
    const auto which = static_cast<unsigned>(random() % 5);
    const auto defect = static_cast<Defect>(random() % static_cast<unsigned>(Defect::kCount));
    const std::size_t count = 2 + random() % (kMost - 2);
    const auto mine = static_cast<float>(rank + 1);
    in.lay(count, mine);
    out.lay(count, 9);
    const bool is_broadcast = which == 1 || which == 4;
    if (defect == Defect::kNullInput && is_broadcast) continue;  // only the root needs it
    const bool writes = which != 2 || rank == 0;
    if (!writes && (defect == Defect::kOverlap || defect == Defect::kUnaligned)) continue;
    if (which == 2 && (defect == Defect::kOverlap || defect == Defect::kUnaligned)) continue;
    const Tensor given = spoiled(defect, in.data(), out.data(), static_cast<std::int64_t>(count));
    RONDE_CHILD_REQUIRE(refuses([&] { bindings.run(which, given); }) == (defect != Defect::kNone));
    const bool is_done = defect == Defect::kNone && writes;
    const float result = is_broadcast ? 1.0F : 3.0F;
    RONDE_CHILD_REQUIRE(in.holds(count, mine));
    RONDE_CHILD_REQUIRE(out.holds(count, is_done ? result : 9));
  }
  return 0;
}

int check_groups_and_scatters(int rank) {
  Job job = init();
  std::vector<float> memory(8, 1);
  const auto part = [&](std::size_t from) { return tensor(memory.data() + from, {4}); };
  const auto sum = [&](const std::vector<Tensor>& tensors) {
    job.grouped_allreduce_async("g", tensors, {.op = ReduceOp::kSum}).wait();
  };
  RONDE_CHILD_REQUIRE(refuses([&] { sum({part(0), part(2)}); }));
  RONDE_CHILD_REQUIRE(refuses([&] { sum({part(0), part(0)}); }));
  sum({part(0), part(4)});
  RONDE_CHILD_REQUIRE(memory == std::vector<float>(8, 2));

  const Tensor mine = part(rank == 0 ? 0 : 4);
  job.scatter_async("s", memory.data(), mine, 0).wait();  // the root's chunk stays where it is
  if (rank == 0) {
    RONDE_CHILD_REQUIRE(refuses([&] { job.scatter_async("s", nullptr, mine, 0).wait(); }));
    RONDE_CHILD_REQUIRE(refuses([&] { job.scatter_async("s", memory.data(), part(2), 0).wait(); }));
  }
  const std::span<std::byte> nothing(static_cast<std::byte*>(nullptr), 4);
  RONDE_CHILD_REQUIRE(refuses([&] { job.recv_async(0, 1, nothing).wait(); }));
  RONDE_CHILD_REQUIRE(refuses([&] { job.send_async(0, 1, nothing).wait(); }));
  job.barrier();
  return 0;
}

/// Runs `body` on two ranks that init() joins.
void run_two(int (*body)(int)) {
  const std::string id = unique_job_id();
  CHECK(run_ranks(2, [&](int rank) {
          ::setenv("RONDE_JOB_ID", id.c_str(), 1);
          ::setenv("RONDE_RANK", std::to_string(rank).c_str(), 1);
          ::setenv("RONDE_SIZE", "2", 1);
          return body(rank);
        }) == all_good(2));
}

}  // namespace

TEST_CASE("C++ API: seeded calls with defects are refused, touch nothing, and the job goes on") {
  run_two(check_bindings);
}

TEST_CASE("C++ API: groups, scatters and messages are checked too") {
  run_two(check_groups_and_scatters);
}

TEST_CASE("C++ API: views and results of other sizes or types are refused") {
  const std::vector<float> in(4);
  std::vector<float> out(3);
  CHECK(refuses([&] { (void)tensor(in, out); }));
  out.resize(4);
  CHECK(tensor(in, out).out == out.data());
  Job job = init();
  const Array array = job.allocate(DType::kFloat32, {4});
  CHECK(array.as<float>().size() == 4);
  CHECK(refuses([&] { (void)array.as<double>(); }));
}

}  // namespace ronde
