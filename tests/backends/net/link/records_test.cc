// Records: what opens, and that everything that is not the next record does not.
#include "backends/net/link/records.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/bytes.h"

namespace ronde::net {
namespace {

constexpr Cipher kCiphers[] = {Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305};

Secret key() {
  std::array<std::byte, Secret::kBytes> bytes{};
  bytes[0] = std::byte{7};
  return Secret(bytes);
}

std::string seal(Sealer& sealer, const std::string& text, RecordKind kind = RecordKind::kData) {
  std::string record(record_bytes(text.size()), '\0');
  const iovec piece{const_cast<char*>(text.data()), text.size()};
  REQUIRE(sealer.seal(kind, {&piece, 1}, reinterpret_cast<std::byte*>(record.data())).ok());
  return record;
}

/// Takes the next record of `wire` and returns its contents.
Result<std::string> open(Opener& opener, std::string& wire) {
  if (wire.size() < kHeadBytes) return Status(Code::kUnavailable, "too few bytes");
  RONDE_ASSIGN_OR_RETURN(const RecordHead head,
                         opener.open_head(as_bytes(wire.substr(0, kHeadBytes))));
  const std::size_t body = body_bytes(head.payload_bytes);
  if (wire.size() < kHeadBytes + body) return Status(Code::kUnavailable, "too few bytes");
  std::string text(head.payload_bytes, '\0');
  const iovec piece{text.data(), text.size()};
  if (body != 0) {
    RONDE_RETURN_IF_ERROR(opener.open_body(as_bytes(wire.substr(kHeadBytes, body)), {&piece, 1}));
  }
  wire.erase(0, kHeadBytes + body);
  return text;
}

TEST_CASE("records of all sizes open in order, and their contents are not on the wire") {
  for (const Cipher cipher : kCiphers) {
    Sealer sealer(cipher, key());
    Opener opener(cipher, key());
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{1000}, kMaxPayloadBytes}) {
      const std::string text(bytes, 'p');
      std::string wire = seal(sealer, text);
      CHECK(wire.size() == record_bytes(bytes));
      if (bytes > 8) CHECK(wire.find("pppppppp") == std::string::npos);
      CHECK(open(opener, wire).value() == text);
    }
  }
}

TEST_CASE("pieces are joined by the sender and parted by the receiver") {
  Sealer sealer(Cipher::kAes256Gcm, key());
  Opener opener(Cipher::kAes256Gcm, key());
  std::string first = "abc";
  std::string second = "defgh";
  const std::array<iovec, 2> pieces{iovec{first.data(), 3}, iovec{second.data(), 5}};
  std::vector<std::byte> record(record_bytes(8));
  REQUIRE(sealer.seal(RecordKind::kData, pieces, record.data()).ok());
  std::string left(5, ' ');
  std::string right(3, ' ');
  const std::array<iovec, 2> rooms{iovec{left.data(), 5}, iovec{right.data(), 3}};
  const std::span<const std::byte> all(record);
  REQUIRE(opener.open_head(all.first(kHeadBytes)).ok());
  REQUIRE(opener.open_body(all.subspan(kHeadBytes), rooms).ok());
  CHECK(left + right == "abcdefgh");
}

TEST_CASE("no bit of a record can be flipped") {
  for (const Cipher cipher : kCiphers) {
    const std::string good = [&] {
      Sealer sealer(cipher, key());
      return seal(sealer, "a short record");
    }();
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      Opener opener(cipher, key());
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ static_cast<char>(1 << bit % 8));
      CHECK(open(opener, bad).status().code() == Code::kInvalidArgument);
      std::string unchanged = good;
      CHECK_FALSE(open(opener, unchanged).ok());  // nothing opens after a refusal
    }
  }
}

TEST_CASE("a record that is replayed, dropped, moved or cut does not open") {
  for (const Cipher cipher : kCiphers) {
    Sealer sealer(cipher, key());
    const std::string first = seal(sealer, "first");
    const std::string second = seal(sealer, "other");  // as long as the first
    const auto second_opens = [&](std::string wire) {
      Opener opener(cipher, key());
      const auto one = open(opener, wire);
      if (!one.ok()) return one.status();
      return open(opener, wire).status();
    };
    CHECK(second_opens(first + second).ok());
    CHECK(second_opens(first + first).code() == Code::kInvalidArgument);
    CHECK(second_opens(second).code() == Code::kInvalidArgument);
    CHECK(second_opens(second + first).code() == Code::kInvalidArgument);
    // The bodies alone exchanged, and some bytes lost.
    const std::string mixed = first.substr(0, kHeadBytes) + second.substr(kHeadBytes);
    CHECK(second_opens(mixed + second).code() == Code::kInvalidArgument);
    for (std::size_t cut = 1; cut < first.size(); ++cut) {
      CHECK(second_opens(first.substr(0, cut) + second + second + second).code() ==
            Code::kInvalidArgument);
    }
  }
}

TEST_CASE("a record of the other direction or another connection does not open") {
  const Secret other = key().derive("other").value();
  Sealer sealer(Cipher::kAes256Gcm, other);
  Opener opener(Cipher::kAes256Gcm, key());
  std::string wire = seal(sealer, "reflected");
  CHECK(open(opener, wire).status().code() == Code::kInvalidArgument);
}

TEST_CASE("keys change in time, on both sides alike") {
  constexpr std::uint64_t kFew = 4;
  Sealer sealer(Cipher::kAes256Gcm, key(), kFew);
  Opener opener(Cipher::kAes256Gcm, key(), kFew);
  Sealer never(Cipher::kAes256Gcm, key());
  for (int i = 0; i < 10; ++i) {
    std::string wire = seal(sealer, "same");
    const std::string with_first_key = seal(never, "same");
    CHECK((wire == with_first_key) == (i < 2));  // a record takes two nonces
    CHECK(open(opener, wire).value() == "same");
  }
}

TEST_CASE("an authentic head that no sender writes is refused") {
  const std::string much(kMaxPayloadBytes + 1, 'x');
  Sealer sealer(Cipher::kAes256Gcm, key());
  Opener opener(Cipher::kAes256Gcm, key());
  std::string wire = seal(sealer, much);
  CHECK(open(opener, wire).status().code() == Code::kInvalidArgument);
  Sealer ends(Cipher::kAes256Gcm, key());
  Opener to_end(Cipher::kAes256Gcm, key());
  wire = seal(ends, "an end with contents", RecordKind::kEnd);
  CHECK(open(to_end, wire).status().code() == Code::kInvalidArgument);
  for (const int kind : {0, 4, 255}) {
    Sealer seals(Cipher::kAes256Gcm, key());
    Opener opens(Cipher::kAes256Gcm, key());
    wire = seal(seals, "", static_cast<RecordKind>(kind));
    CHECK(open(opens, wire).status().code() == Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ronde::net
