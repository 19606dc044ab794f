// Sparse frames: the bytes that the header promises, and what becomes of broken ones.
#include "ops/compression/sparse/frame.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <string>

namespace ronde {
namespace {

SparseVector some(std::size_t count, std::size_t every) {
  SparseVector vector;
  for (std::size_t i = every - 1; i < count; i += every) {
    vector.indices.push_back(static_cast<std::uint32_t>(i));
    vector.values.push_back(static_cast<float>(i) - 7.5F);
  }
  return vector;
}

std::vector<std::byte> frame_of(const SparseVector& vector, std::size_t count) {
  std::vector<std::byte> frame;
  encode_sparse(vector, count, frame);
  return frame;
}

/// The values of all elements.
std::vector<float> dense(const SparseVector& vector, std::size_t count) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < vector.indices.size(); ++i) {
    all[vector.indices[i]] = vector.values[i];
  }
  return all;
}

std::string refusal(std::vector<std::byte> frame, std::size_t count) {
  std::span<const std::byte> bytes(frame);
  SparseVector vector;
  const Status status = decode_sparse(bytes, count, vector);
  CHECK(status.code() == Code::kInvalidArgument);
  return status.message();
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

}  // namespace

TEST_CASE("What is encoded is decoded, in whichever form is the shortest") {
  for (const std::size_t count : {1U, 8U, 9U, 1000U, 40'000U}) {
    for (const std::size_t every : {1U, 2U, 3U, 20U, 100U, 20'000U}) {
      const SparseVector vector = some(count, every);
      const auto frame = frame_of(vector, count);
      std::span<const std::byte> bytes(frame);
      SparseVector back;
      REQUIRE(decode_sparse(bytes, count, back).ok());
      CHECK(bytes.empty());
      CHECK(dense(back, count) == dense(vector, count));
      const std::size_t n = vector.indices.size();
      CHECK(frame.size() <= 5 + 4 * count);
      CHECK(frame.size() <= 5 + 4 * n + (count + 7) / 8);
    }
  }
}

TEST_CASE("Gaps of the format are as its header says") {
  SparseVector vector;
  vector.indices = {2, 3, 300};
  vector.values = {1.0F, -1.0F, 0.5F};
  auto wanted = bytes_of({0, 3, 0, 0, 0, 2, 0, 296 % 128 + 128, 296 / 128});
  wanted.resize(wanted.size() + 12);
  std::memcpy(wanted.data() + 9, vector.values.data(), 12);
  CHECK(frame_of(vector, 1000) == wanted);
}

TEST_CASE("A bitmap and a dense frame are as the header says") {
  SparseVector vector;
  vector.indices = {0, 1, 2, 4, 5, 6, 9};
  vector.values = {1, 2, 3, 4, 5, 6, 7};
  const auto frame = frame_of(vector, 12);
  REQUIRE(frame.size() == 5 + 2 + 28);
  CHECK(std::vector<std::byte>(frame.begin(), frame.begin() + 7) ==
        bytes_of({1, 7, 0, 0, 0, 0x77, 0x02}));
  const auto all = frame_of(some(3, 1), 3);
  CHECK(std::vector<std::byte>(all.begin(), all.begin() + 5) == bytes_of({2, 3, 0, 0, 0}));
  CHECK(all.size() == 5 + 12);
}

TEST_CASE("Drawn elements send no indices, and the draw can be told from the key") {
  SparseVector vector;
  vector.drawn = true;
  vector.key = 99;
  const Draw draw(1000, 10, 99);
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(draw.index(i) >= i * 100);
    CHECK(draw.index(i) < (i + 1) * 100);
    vector.indices.push_back(static_cast<std::uint32_t>(draw.index(i)));
    vector.values.push_back(static_cast<float>(i));
  }
  const auto frame = frame_of(vector, 1000);
  CHECK(frame.size() == 5 + 8 + 40);
  std::span<const std::byte> bytes(frame);
  SparseVector back;
  REQUIRE(decode_sparse(bytes, 1000, back).ok());
  CHECK(back.drawn);
  CHECK(back.indices == vector.indices);
}

TEST_CASE("Every element is drawn equally often") {
  std::vector<int> drawn(100);
  for (std::uint64_t key = 0; key < 10'000; ++key) {
    const Draw draw(100, 5, key * 7919);
    for (std::size_t i = 0; i < 5; ++i) ++drawn[draw.index(i)];
  }
  for (const int times : drawn) {  // 500 on average, six deviations of 22
    CHECK(times > 368);
    CHECK(times < 632);
  }
}

TEST_CASE("Broken frames are refused with what is wrong") {
  CHECK(refusal({}, 10).find("0 bytes are no header of 5") != std::string::npos);
  CHECK(refusal(bytes_of({0, 11, 0, 0, 0}), 10).find("11 of 10 elements") != std::string::npos);
  CHECK(refusal(bytes_of({0, 1, 0, 0, 0, 10, 0, 0, 0, 0}), 10).find("index 10 of 10") !=
        std::string::npos);
  CHECK(refusal(bytes_of({0, 1, 0, 0, 0, 1, 0, 0}), 10).find("ends within") != std::string::npos);
  CHECK(refusal(bytes_of({0, 1, 0, 0, 0, 255, 255, 255, 255, 255}), 10).find("its indices") !=
        std::string::npos);
  CHECK(refusal(bytes_of({1, 1, 0, 0, 0, 0, 4, 0, 0, 0, 0}), 10).find("beyond the end") !=
        std::string::npos);
  CHECK(refusal(bytes_of({1, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0}), 10).find("2 bits for 1") !=
        std::string::npos);
  CHECK(refusal(bytes_of({2, 1, 0, 0, 0, 0, 0, 0, 0}), 10).find("1 dense elements of 10") !=
        std::string::npos);
  CHECK(refusal(bytes_of({3, 1, 0, 0, 0, 0, 0, 0, 0}), 10).find("its key") != std::string::npos);
  CHECK(refusal(bytes_of({9, 0, 0, 0, 0}), 10).find("form 9") != std::string::npos);
}

TEST_CASE("No bytes make the decoder fail otherwise") {
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> frame(random() % 80);
    for (std::byte& byte : frame) byte = static_cast<std::byte>(random());
    if (!frame.empty()) frame[0] &= static_cast<std::byte>(3);
    for (std::size_t i = 2; i < std::min<std::size_t>(5, frame.size()); ++i) frame[i] = {};
    std::span<const std::byte> bytes(frame);
    SparseVector vector;
    const std::size_t count = random() % 300;
    if (!decode_sparse(bytes, count, vector).ok()) continue;
    CHECK(vector.values.size() == vector.indices.size());
    for (const std::uint32_t index : vector.indices) CHECK(index < count);
  }
}

}  // namespace ronde
