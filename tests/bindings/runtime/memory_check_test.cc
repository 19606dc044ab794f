// Checks of tensors' memory, against a model that marks each byte.
#include "bindings/runtime/memory_check.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/contains.h"

namespace ronde {
namespace {

using test::contains;

constexpr std::size_t kArena = 256;
alignas(64) std::byte arena[kArena];

std::byte* at(std::size_t place) { return arena + place; }

Status check(Collective kind, const void* in, const void* out, const Shape& shape = {4},
             DType dtype = DType::kFloat32) {
  const TensorMemory tensors[] = {{dtype, shape, in, out}};
  return check_memory({.kind = kind, .ranks = 2, .place = 1}, tensors);
}

/// A tensor of the fuzz test: shapes of one dimension, at places of the arena.
struct Given {
  std::size_t in = 0;
  std::size_t out = 0;
  Shape shape;
};

/// True if some byte is written, and also read or written for another element.
bool conflicts(const std::vector<Given>& given) {
  std::map<std::size_t, std::size_t> writers;
  for (std::size_t i = 0; i < given.size(); ++i) {
    for (std::int64_t byte = 0; byte < 4 * given[i].shape[0]; ++byte) {
      if (!writers.try_emplace(given[i].out + static_cast<std::size_t>(byte), i).second)
        return true;
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    for (std::int64_t byte = 0; byte < 4 * given[i].shape[0]; ++byte) {
      const auto writer = writers.find(given[i].in + static_cast<std::size_t>(byte));
      if (writer == writers.end()) continue;
      if (writer->second != i || given[i].in != given[i].out) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("memory check: in place is exactly the input, and nothing between") {
  CHECK(check(Collective::kAllreduce, at(0), at(0)).ok());
  CHECK(check(Collective::kAllreduce, at(0), at(16)).ok());
  CHECK(check(Collective::kAllreduce, at(0), nullptr).ok());
  const Status behind = check(Collective::kAllreduce, at(0), at(8));
  CHECK(behind.code() == Code::kInvalidArgument);
  CHECK(behind.message() ==
        "the output (shape [4], dtype float32) overlaps the input (shape [4], dtype float32); give "
        "memory of its own, or exactly the input to work in place");
  CHECK_FALSE(check(Collective::kBroadcast, at(8), at(0)).ok());
  CHECK(check(Collective::kAllgather, at(16), at(0)).ok());  // its chunk of the output
  CHECK(check(Collective::kAllgather, at(0), at(0)).ok());
  CHECK_FALSE(check(Collective::kAllgather, at(0), at(8)).ok());
  CHECK_FALSE(check(Collective::kAlltoall, at(0), at(8)).ok());
  CHECK(check(Collective::kAllreduce, at(0), at(0), {0}).ok());
}

TEST_CASE("memory check: the root of a scatter may keep its own chunk in place") {
  CHECK(check(Collective::kScatter, at(0), at(16)).ok());  // the second of two ranks
  CHECK(check(Collective::kScatter, at(0), at(32)).ok());
  CHECK_FALSE(check(Collective::kScatter, at(0), at(0)).ok());
  CHECK_FALSE(check(Collective::kScatter, at(0), at(24)).ok());
  const Shape huge = {std::int64_t{1} << 60};
  CHECK(contains(check(Collective::kScatter, at(0), at(0), huge).message(), "too many bytes"));
}

TEST_CASE("memory check: reduce_scatter works in place in this rank's chunk, and nowhere else") {
  CHECK(check(Collective::kReduceScatter, at(0), at(8)).ok());  // the second of two ranks
  CHECK(check(Collective::kReduceScatter, at(0), at(16)).ok());
  for (const std::size_t place : {0U, 4U, 12U}) {
    CHECK_FALSE(check(Collective::kReduceScatter, at(0), at(place)).ok());
  }
  CHECK_FALSE(check(Collective::kReduceScatter, at(8), at(4)).ok());
  CHECK(check(Collective::kReduceScatter, at(0), at(8), {3}).ok());  // the first has two rows
  CHECK_FALSE(check(Collective::kReduceScatter, at(0), at(4), {3}).ok());
  CHECK(check(Collective::kReduceScatter, at(0), at(0), {1}).ok());  // its chunk has no rows
}

TEST_CASE("memory check: addresses are there, fit their type, and do not wrap") {
  CHECK(contains(check(Collective::kAllreduce, nullptr, at(0)).message(), "null address"));
  CHECK(check(Collective::kAllreduce, nullptr, nullptr, {2, 0}).ok());
  CHECK(check(Collective::kBarrier, nullptr, nullptr, {}).ok());
  CHECK(contains(check(Collective::kAllreduce, at(2), at(32)).message(), "multiples of 4"));
  CHECK(contains(check(Collective::kAllreduce, at(0), at(33)).message(), "the output"));
  CHECK(check(Collective::kAllreduce, at(1), at(33), {4}, DType::kInt8).ok());
  const Shape most = {(std::int64_t{1} << 62) - 1};
  const auto* const high = reinterpret_cast<const void*>(~std::uintptr_t{0} - 63);
  CHECK(contains(check(Collective::kAllreduce, high, nullptr, most, DType::kInt8).message(),
                 "more than fit"));
}

TEST_CASE("memory check: only ranks that read or write need memory") {
  const Shape shape = {4};
  const TensorMemory none[] = {{DType::kFloat32, shape, nullptr, nullptr}};
  MemoryUse use{.kind = Collective::kBroadcast, .ranks = 2, .is_root = false};
  CHECK(check_memory(use, none).ok());
  use.allocates = false;
  CHECK(contains(check_memory(use, none).message(), "the output"));
  const TensorMemory in[] = {{DType::kFloat32, shape, at(0), nullptr}};
  CHECK(check_memory({.kind = Collective::kReduce, .is_root = false, .allocates = false}, in).ok());
}

TEST_CASE("memory check: random groups are refused exactly where bytes conflict") {
  std::mt19937 random(35);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random()) % limit; };
  int refused = 0;
  constexpr int kRounds = 4000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Given> given(1 + below(4));
    for (Given& one : given) {
      one = {4 * below(40), 4 * below(40), {static_cast<std::int64_t>(1 + below(6))}};
      if (below(3) == 0) one.out = one.in;
    }
    std::vector<TensorMemory> tensors;
    for (const Given& one : given) {
      tensors.push_back({DType::kFloat32, one.shape, at(one.in), at(one.out)});
    }
    const Status status = check_memory({.kind = Collective::kAllreduce}, tensors);
    INFO("round ", round, ": ", status.to_string());
    CHECK(status.ok() == !conflicts(given));
    refused += status.ok() ? 0 : 1;
  }
  CHECK(refused > kRounds / 5);
  CHECK(refused < kRounds * 4 / 5);
}

}  // namespace ronde
