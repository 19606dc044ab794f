// Every element type, operation and number of inputs, on every instruction set, against the
// reference.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/ops/kernels/reference.h"
#include "tests/ops/kernels/targets.h"

namespace ronde {
namespace {

using test::Buffer;
using test::Bytes;

/// How one reduction is called.
struct Manner {
  std::size_t offset = 0;  ///< Bytes by which all pointers miss alignment.
  int in_place_of = -1;    ///< The input that is also the output, or -1.
  bool streaming = false;
};

Bytes reduce(const ReduceKernels& kernels, const Reduction& what, const std::vector<Bytes>& inputs,
             const Manner& manner) {
  std::vector<Buffer> buffers;
  for (const Bytes& input : inputs) buffers.emplace_back(input, manner.offset);
  std::vector<const void*> pointers;
  for (Buffer& buffer : buffers) pointers.push_back(buffer.data());
  Buffer separate(inputs[0].size(), manner.offset);
  Buffer& out =
      manner.in_place_of < 0 ? separate : buffers[static_cast<std::size_t>(manner.in_place_of)];
  const std::size_t count = inputs[0].size() / size_of(what.dtype);
  if (manner.streaming) {
    kernels.reduce_streaming(what, pointers, out.data(), count);
  } else {
    kernels.reduce(what, pointers, out.data(), count);
  }
  return out.bytes();
}

std::vector<Bytes> random_inputs(const Reduction& what, int inputs, std::size_t count,
                                 std::mt19937& random) {
  std::vector<Bytes> all;
  for (int k = 0; k < inputs; ++k) {
    all.push_back(test::random_elements(what.dtype, count, random));
  }
  return all;
}

std::vector<Manner> manners(int inputs) {
  return {{.offset = 0},
          {.offset = 1},
          {.offset = 0, .in_place_of = 0},
          {.offset = 3, .in_place_of = inputs - 1},
          {.offset = 0, .streaming = true},
          {.offset = size_of(DType::kFloat64), .streaming = true},
          {.offset = 1, .in_place_of = 0, .streaming = true}};
}

void check_all_manners(const ReduceKernels& kernels, const Reduction& what,
                       const std::vector<Bytes>& inputs) {
  const Bytes want = test::reference(what, inputs);
  for (const Manner& manner : manners(static_cast<int>(inputs.size()))) {
    const std::string wrong =
        test::difference(what.dtype, reduce(kernels, what, inputs, manner), want);
    if (wrong.empty()) continue;
    FAIL_CHECK(to_string(what.dtype), " ", to_string(what.op), " of ", inputs.size(),
               " inputs, count ", want.size() / size_of(what.dtype), ", pre ", what.scaling.pre,
               ", offset ", manner.offset, ", in place of ", manner.in_place_of, ", streaming ",
               manner.streaming, ": ", wrong);
  }
}

void check_dtype(DType dtype) {
  std::mt19937 random(7);
  test::for_each_target([&](const ReduceKernels& kernels) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      Reduction what{.dtype = dtype, .op = static_cast<ReduceOp>(op), .scaling = {}};
      if (what.op == ReduceOp::kAverage || !is_element_wise(what.op)) continue;
      if (!is_defined(what.op, dtype)) continue;
      for (const int inputs : {1, 2, 3, 4, 5, 9}) {
        for (const std::size_t count : {0UL, 1UL, 7UL, 61UL, 257UL}) {
          what.scaling = {};
          check_all_manners(kernels, what, random_inputs(what, inputs, count, random));
          what.scaling = {.pre = 0.3, .post = 1.7};
          check_all_manners(kernels, what, random_inputs(what, inputs, count, random));
        }
      }
    }
  });
}

}  // namespace

TEST_CASE("reduce: uint8 is as the reference") { check_dtype(DType::kUint8); }
TEST_CASE("reduce: int8 is as the reference") { check_dtype(DType::kInt8); }
TEST_CASE("reduce: int16 is as the reference") { check_dtype(DType::kInt16); }
TEST_CASE("reduce: int32 is as the reference") { check_dtype(DType::kInt32); }
TEST_CASE("reduce: int64 is as the reference") { check_dtype(DType::kInt64); }
TEST_CASE("reduce: uint16 is as the reference") { check_dtype(DType::kUint16); }
TEST_CASE("reduce: uint32 is as the reference") { check_dtype(DType::kUint32); }
TEST_CASE("reduce: uint64 is as the reference") { check_dtype(DType::kUint64); }
TEST_CASE("reduce: float16 is as the reference") { check_dtype(DType::kFloat16); }
TEST_CASE("reduce: bfloat16 is as the reference") { check_dtype(DType::kBfloat16); }
TEST_CASE("reduce: float8_e4m3fn is as the reference") { check_dtype(DType::kFloat8E4m3); }
TEST_CASE("reduce: float8_e5m2 is as the reference") { check_dtype(DType::kFloat8E5m2); }
TEST_CASE("reduce: float32 is as the reference") { check_dtype(DType::kFloat32); }
TEST_CASE("reduce: float64 is as the reference") { check_dtype(DType::kFloat64); }
TEST_CASE("reduce: bool is as the reference") { check_dtype(DType::kBool); }

TEST_CASE("reduce: large sums are as the reference, streamed or not") {
  std::mt19937 random(11);
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32}) {
    const Reduction what{.dtype = dtype, .op = ReduceOp::kSum, .scaling = {}};
    const auto inputs = random_inputs(what, 2, 100'003, random);
    test::for_each_target(
        [&](const ReduceKernels& kernels) { check_all_manners(kernels, what, inputs); });
  }
}

TEST_CASE("reduce: the reference comparison notices a wrong element") {
  const Bytes right(8, 1);
  Bytes wrong = right;
  wrong[6] = 0x40;
  CHECK(test::difference(DType::kFloat32, right, right).empty());
  CHECK_FALSE(test::difference(DType::kFloat32, wrong, right).empty());
  CHECK_FALSE(test::difference(DType::kInt16, wrong, right).empty());
}

TEST_CASE("reduce: on x86 more than the scalar instruction set was compiled") {
#if defined(__x86_64__)
  CHECK(HWY_TARGETS != (HWY_TARGETS & (HWY_SCALAR | HWY_EMU128)));
  if (__builtin_cpu_supports("avx2")) CHECK(kernels_target().starts_with("AVX"));
#endif
  CHECK_FALSE(kernels_target().empty());
}

}  // namespace ronde
