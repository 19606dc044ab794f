#include "backends/net/link/key_exchange.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <string>
#include <utility>

#include "core/base/bytes.h"

namespace ronde::net {
namespace {

EVP_PKEY* pkey_of(void* key) noexcept { return static_cast<EVP_PKEY*>(key); }

const unsigned char* key_bytes(std::span<const std::byte> bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Status missing() { return {Code::kUnavailable, "OpenSSL offers no X25519"}; }

}  // namespace

void KeyExchange::Free::operator()(void* key) const noexcept { EVP_PKEY_free(pkey_of(key)); }

Result<KeyExchange> KeyExchange::of(Key key) {
  PublicKey shown{};
  std::size_t size = shown.size();
  if (key == nullptr ||
      EVP_PKEY_get_raw_public_key(pkey_of(key.get()),
                                  reinterpret_cast<unsigned char*>(shown.data()), &size) != 1) {
    return missing();
  }
  return KeyExchange(std::move(key), shown);
}

Result<KeyExchange> KeyExchange::make() {
  return of(Key(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519")));
}

Result<KeyExchange> KeyExchange::from_private(std::span<const std::byte, 32> key) {
  return of(
      Key(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, key_bytes(key), key.size())));
}

Result<Secret> KeyExchange::agree(const PublicKey& peer) const {
  const Key theirs(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, key_bytes(peer), peer.size()));
  const std::unique_ptr<EVP_PKEY_CTX, void (*)(EVP_PKEY_CTX*)> context(
      EVP_PKEY_CTX_new(pkey_of(key_.get()), nullptr), EVP_PKEY_CTX_free);
  std::array<std::byte, Secret::kBytes> shared{};
  std::size_t size = shared.size();
  const bool agreed =
      theirs != nullptr && context != nullptr && EVP_PKEY_derive_init(context.get()) == 1 &&
      EVP_PKEY_derive_set_peer(context.get(), pkey_of(theirs.get())) == 1 &&
      EVP_PKEY_derive(context.get(), reinterpret_cast<unsigned char*>(shared.data()), &size) == 1;
  const Secret secret(shared);
  OPENSSL_cleanse(shared.data(), shared.size());
  if (!agreed) return Status(Code::kInvalidArgument, "a public key that no peer makes");
  return secret;
}

Result<ConnectionKeys> derive_keys(const KeyFacts& facts) {
  std::array<std::byte, 2 * Secret::kBytes> input{};
  std::copy(facts.shared.bytes().begin(), facts.shared.bytes().end(), input.begin());
  std::copy(facts.job.bytes().begin(), facts.job.bytes().end(), input.begin() + Secret::kBytes);
  const auto derived = [&](std::string_view direction) {
    std::string info(direction);
    info += as_text(facts.hellos);
    return hkdf(input, facts.salt, as_bytes(info));
  };
  const auto from_dialer = derived("ronde 2 from dialer ");
  const auto from_listener = derived("ronde 2 from listener ");
  OPENSSL_cleanse(input.data(), input.size());
  if (!from_dialer.ok()) return from_dialer.status();
  if (!from_listener.ok()) return from_listener.status();
  return ConnectionKeys{*from_dialer, *from_listener, facts.cipher};
}

}  // namespace ronde::net
