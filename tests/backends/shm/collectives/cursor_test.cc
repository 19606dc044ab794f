#include "backends/shm/collectives/cursor.h"

#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <vector>

namespace ronde::shm {
namespace {

struct Stream {
  std::array<std::byte, 30> in{};
  std::array<std::byte, 30> out{};
  std::vector<Segment> segments;

  /// Segments of 0, 10, 0, 1, 19 bytes over `in` and `out`.
  Stream() {
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i + 1);
    std::size_t at = 0;
    for (const std::size_t size : std::initializer_list<std::size_t>{0, 10, 0, 1, 19}) {
      segments.push_back({.in = in.data() + at, .out = out.data() + at, .bytes = size});
      at += size;
    }
  }
};

std::vector<std::size_t> pieces(Cursor& cursor, std::size_t bytes) {
  std::vector<std::size_t> sizes;
  cursor.take(bytes, [&](const Segment& piece) { sizes.push_back(piece.bytes); });
  return sizes;
}

TEST_CASE("a cursor cuts what it takes at the segments' borders") {
  const Stream bytes;
  Cursor cursor(bytes.segments);
  CHECK(pieces(cursor, 4) == std::vector<std::size_t>{4});
  CHECK(pieces(cursor, 8) == std::vector<std::size_t>{6, 1, 1});
  CHECK(pieces(cursor, 0).empty());
  CHECK(pieces(cursor, 100) == std::vector<std::size_t>{18});
  CHECK(pieces(cursor, 1).empty());
}

TEST_CASE("seek skips bytes over borders and stops at the end") {
  const Stream bytes;
  Cursor cursor(bytes.segments);
  cursor.seek(10);
  cursor.seek(10);
  CHECK(pieces(cursor, 2) == std::vector<std::size_t>{1, 1});
  cursor.seek(29);
  cursor.take(5, [&](const Segment& piece) { CHECK(piece.in == bytes.in.data() + 29); });
  cursor.seek(1000);
  CHECK(pieces(cursor, 1).empty());
}

TEST_CASE("what is copied in and out again is the same") {
  for (const std::size_t step : std::initializer_list<std::size_t>{1, 3, 7, 30, 64}) {
    Stream bytes;
    Cursor from(bytes.segments);
    Cursor to(bytes.segments);
    const Copier copier(true);
    std::array<std::byte, 64> slot{};
    for (std::size_t done = 0; done < bytes.in.size(); done += step) {
      copier.copy_in(from, step, slot.data());
      copier.copy_out(slot.data(), step, to);
    }
    CHECK(bytes.in == bytes.out);
  }
}

TEST_CASE("a block's checksum is the same however it is cut, on both of its ways") {
  for (const bool streaming : {false, true}) {
    for (const std::size_t step : std::initializer_list<std::size_t>{1, 3, 7, 30, 64}) {
      Stream bytes;
      Cursor from(bytes.segments);
      Cursor to(bytes.segments);
      const Copier copier(streaming);
      std::array<std::byte, 64> slot{};
      Checksum written;
      Checksum read;
      Checksum wanted;
      for (std::size_t done = 0; done < bytes.in.size(); done += step) {
        copier.copy_in(from, step, slot.data(), &written);
        wanted.add(std::span(slot).first(step));
        copier.copy_out(slot.data(), step, to, &read);
      }
      CHECK(bytes.in == bytes.out);
      CHECK(written.value() == wanted.value());
      CHECK(read.value() == wanted.value());
    }
  }
}

TEST_CASE("no input is zeros and no output is left out") {
  const Copier copier(false);
  std::array<std::byte, 8> slot{};
  slot.fill(std::byte{7});
  const Segment nowhere{.in = nullptr, .out = nullptr, .bytes = 4};
  Cursor from({&nowhere, 1});
  copier.copy_in(from, 4, slot.data());
  CHECK(slot == std::array<std::byte, 8>{
                    {{}, {}, {}, {}, std::byte{7}, std::byte{7}, std::byte{7}, std::byte{7}}});
  Cursor to({&nowhere, 1});
  copier.copy_out(slot.data(), 4, to);
}

TEST_CASE("copy_through fills slot and output") {
  Stream bytes;
  Cursor cursor(bytes.segments);
  std::array<std::byte, 30> slot{};
  Copier(false).copy_through(cursor, 30, slot.data());
  CHECK(slot == bytes.in);
  CHECK(bytes.out == bytes.in);
}

TEST_CASE("large pieces are streamed with the same bytes") {
  std::vector<std::byte> in(10'001);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 7);
  std::vector<std::byte> out(in.size());
  const Copier copier(true);
  copier.write(in.data(), out.data(), in.size());
  CHECK(in == out);
  std::vector<std::byte> slot(in.size());
  copier.fill(slot.data(), {.in = in.data(), .out = nullptr, .bytes = in.size()});
  CHECK(in == slot);
}

}  // namespace
}  // namespace ronde::shm
