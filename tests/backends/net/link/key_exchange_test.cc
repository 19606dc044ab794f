// Known answers of X25519 and HKDF, and what a connection's keys depend on.
#include "backends/net/link/key_exchange.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/bytes.h"

namespace ronde::net {
namespace {

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::array<std::byte, 32> key_from(const std::string& text) {
  std::array<std::byte, 32> key{};
  std::ranges::copy(from_hex(text), key.begin());
  return key;
}

TEST_CASE("X25519 gives the answers of RFC 7748") {  // section 6.1
  const auto alice =
      KeyExchange::from_private(
          key_from("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
          .value();
  const auto bob = KeyExchange::from_private(
                       key_from("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
                       .value();
  CHECK(hex(alice.public_key()) ==
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  CHECK(hex(bob.public_key()) ==
        "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  const std::string shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
  CHECK(hex(alice.agree(bob.public_key())->bytes()) == shared);
  CHECK(hex(bob.agree(alice.public_key())->bytes()) == shared);
}

TEST_CASE("HKDF gives the answers of RFC 5869") {
  // Cases 1 and 3; the first 32 bytes of 42.
  const std::vector<std::byte> input(22, std::byte{0x0b});
  CHECK(hex(hkdf(input, from_hex("000102030405060708090a0b0c"), from_hex("f0f1f2f3f4f5f6f7f8f9"))
                ->bytes()) == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
  CHECK(hex(hkdf(input, {}, {})->bytes()) ==
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
}

TEST_CASE("both ends share a secret that is new each time, and zeros are refused") {
  const KeyExchange a = KeyExchange::make().value();
  const KeyExchange b = KeyExchange::make().value();
  const KeyExchange c = KeyExchange::make().value();
  CHECK(hex(a.agree(b.public_key())->bytes()) == hex(b.agree(a.public_key())->bytes()));
  CHECK(hex(a.agree(b.public_key())->bytes()) != hex(a.agree(c.public_key())->bytes()));
  CHECK(a.agree(PublicKey{}).status().code() == Code::kInvalidArgument);
}

TEST_CASE("a connection's keys depend on all its facts and differ by direction") {
  const Secret shared = Secret::random().value();
  const Secret job = Secret::random().value();
  const auto keys = [](const Secret& of_pair, const Secret& of_job, const std::string& salt,
                       const std::string& hellos) {
    return derive_keys({.shared = of_pair,
                        .job = of_job,
                        .salt = as_bytes(salt),
                        .hellos = as_bytes(hellos)})
        .value();
  };
  const ConnectionKeys base = keys(shared, job, "salt", "hellos");
  const std::string dialer = hex(base.from_dialer.bytes());
  CHECK(dialer == hex(keys(shared, job, "salt", "hellos").from_dialer.bytes()));
  CHECK(dialer != hex(base.from_listener.bytes()));
  CHECK(dialer != hex(keys(job, job, "salt", "hellos").from_dialer.bytes()));
  CHECK(dialer != hex(keys(shared, shared, "salt", "hellos").from_dialer.bytes()));
  CHECK(dialer != hex(keys(shared, job, "Salt", "hellos").from_dialer.bytes()));
  CHECK(dialer != hex(keys(shared, job, "salt", "hellos.").from_dialer.bytes()));
}

}  // namespace
}  // namespace ronde::net
