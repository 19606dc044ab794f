#include "core/base/wire_codec.h"

#include <doctest/doctest.h>

#include <limits>

namespace ronde {
namespace {

enum class Colour : std::uint16_t { kRed = 1, kBlue = 2 };

struct Inner {
  std::int64_t number = 0;
  std::string text;
  bool operator==(const Inner&) const = default;
  static void fields(auto& wire, auto& self) { wire(self.number, self.text); }
};

struct Everything {
  int rank = 0;
  bool flag = false;
  Colour colour = Colour::kRed;
  std::array<std::byte, 3> id{};
  std::vector<std::string> words;
  std::vector<Inner> inner;
  std::map<int, Inner> by_rank;
  std::vector<double> numbers;
  std::shared_ptr<const Inner> shared;
  std::shared_ptr<const Inner> none;
  bool operator==(const Everything& other) const {
    return rank == other.rank && flag == other.flag && colour == other.colour && id == other.id &&
           words == other.words && inner == other.inner && by_rank == other.by_rank &&
           numbers == other.numbers && *shared == *other.shared && none == other.none;
  }
  static void fields(auto& wire, auto& self) {
    wire(self.rank, self.flag, self.colour, self.id, self.words, self.inner, self.by_rank,
         self.numbers, self.shared, self.none);
  }
};

Everything rich() {
  return {.rank = -7,
          .flag = true,
          .colour = Colour::kBlue,
          .id = {std::byte{1}, std::byte{2}, std::byte{3}},
          .words = {"x", "", std::string("a\0b", 3)},
          .inner = {{std::numeric_limits<std::int64_t>::min(), "low"}, {}},
          .by_rank = {{3, {4, "four"}}, {-1, {}}},
          .numbers = {0.5, -2e300},
          .shared = std::make_shared<const Inner>(Inner{9, "nine"}),
          .none = nullptr};
}

TEST_CASE("wire codec: each kind of field comes back as it was written") {
  const auto bytes = encode_wire(rich());
  const auto got = decode_wire<Everything>(bytes, "thing");
  REQUIRE(got.ok());
  CHECK(*got == rich());
  CHECK(as_bytes(encode_wire<std::string>(rich())).size() == bytes.size());
}

TEST_CASE("wire codec: numbers are little-endian and of fixed width") {
  WireWriter<std::string> writer;
  writer(std::uint16_t{0x0201}, Colour::kBlue, std::uint8_t{7}, std::string("hi"));
  writer.raw(as_bytes("!"));
  CHECK(writer.take() == std::string("\x01\x02\x02\x00\x07\x02\x00\x00\x00hi!", 12));
}

TEST_CASE("wire codec: a message cut anywhere is an error that names it") {
  const auto bytes = encode_wire(rich());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto got = decode_wire<Everything>(std::span(bytes).first(length), "thing");
    REQUIRE_FALSE(got.ok());
    CHECK(got.status().code() == Code::kInvalidArgument);
    CHECK(got.status().message().starts_with("malformed thing: at byte "));
  }
}

TEST_CASE("wire codec: bytes after the end are an error") {
  auto bytes = encode_wire(Inner{});
  bytes.push_back(std::byte{0});
  CHECK(decode_wire<Inner>(bytes, "thing").status().message() ==
        "malformed thing: at byte 12 of 13, there are bytes after its end");
}

TEST_CASE("wire codec: an absurd length is an error, not an allocation") {
  const auto bytes = encode_wire(std::vector<std::uint32_t>{0xFFFFFFFF, 0xFFFFFFFF});
  CHECK_FALSE(decode_wire<std::vector<std::string>>(bytes, "list").ok());
  const auto whole = std::span(bytes).subspan(4);
  CHECK_FALSE(decode_wire<std::string>(whole, "text").ok());
  CHECK_FALSE((decode_wire<std::map<int, int>>(whole, "map").ok()));
}

TEST_CASE("wire codec: after the first error all values are empty") {
  const auto bytes = encode_wire(std::string("abc"));
  const std::span<const std::byte> cut(bytes.data(), 5);
  WireReader reader(cut, "text");
  std::string text = "before";
  int number = 9;
  reader(text, number);
  CHECK(text.empty());
  CHECK(number == 0);
  CHECK(reader.rest().empty());
  reader.require(false, "later");
  CHECK(reader.finish().message() == "malformed text: at byte 4 of 5, a length exceeds it");
}

TEST_CASE("wire codec: a truth value is 0 or 1") {
  const std::vector<std::byte> bytes{std::byte{2}};
  CHECK_FALSE(decode_wire<bool>(bytes, "flag").ok());
}

TEST_CASE("wire codec: what follows the fields is taken as it is") {
  WireWriter writer(std::vector<std::byte>(100));
  writer(std::uint32_t{5});
  writer.raw(as_bytes("rest"));
  const auto bytes = writer.take();
  WireReader reader(bytes, "frame");
  std::uint32_t number = 0;
  reader(number);
  CHECK(number == 5);
  CHECK(as_text(reader.rest()) == "rest");
  CHECK(reader.finish().ok());
}

Status sent_and_received(const Status& sent) {
  const auto bytes = encode_wire(sent);
  WireReader reader(bytes, "status");
  Status received(Code::kInternal, "not overwritten");
  reader(received);
  CHECK(reader.finish().ok());
  return received;
}

TEST_CASE("wire codec: an error keeps its code, message and rank; success stays success") {
  CHECK(sent_and_received({}).ok());
  const Status plain = sent_and_received({Code::kTimeout, "late"});
  CHECK(plain.code() == Code::kTimeout);
  CHECK(plain.message() == "late");
  CHECK_FALSE(plain.failed_rank().has_value());
  const Status about =
      sent_and_received(Status(Code::kRankFailure, "rank 3 died").about({3, "node1", 42}));
  CHECK(about.failed_rank()->rank == 3);
  CHECK(about.failed_rank()->host == "node1");
  CHECK(about.failed_rank()->pid == 42);
}

TEST_CASE("wire codec: an error of an unknown code is malformed") {
  auto bytes = encode_wire(Status(Code::kTimeout, "late"));
  bytes[0] = std::byte{99};
  WireReader reader(bytes, "status");
  Status received;
  reader(received);
  CHECK(received.ok());
  CHECK(reader.finish().message().find("code is unknown") != std::string::npos);
}

}  // namespace
}  // namespace ronde
