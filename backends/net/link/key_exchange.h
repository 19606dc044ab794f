// Ephemeral X25519 (RFC 7748) and the keys of a connection that are made of it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "backends/net/link/encryption.h"
#include "backends/net/rendezvous/secret.h"
#include "core/base/status.h"

namespace ronde::net {

using PublicKey = std::array<std::byte, 32>;

/// One end of a key exchange. Its private key is in no other place and goes with it: who records
/// the connection and learns the job's secret later cannot open the recording.
class KeyExchange {
 public:
  /// Draws a key. Errors: kUnavailable where libcrypto offers no X25519.
  static Result<KeyExchange> make();
  /// From a private key, for known answers. Errors: as make.
  static Result<KeyExchange> from_private(std::span<const std::byte, 32> key);

  [[nodiscard]] const PublicKey& public_key() const noexcept { return public_; }

  /// The secret that both ends share. Errors: kInvalidArgument for a key that gives all zeros.
  [[nodiscard]] Result<Secret> agree(const PublicKey& peer) const;

 private:
  struct Free {
    void operator()(void* key) const noexcept;
  };
  using Key = std::unique_ptr<void, Free>;

  static Result<KeyExchange> of(Key key);
  KeyExchange(Key key, const PublicKey& shown) noexcept : key_(std::move(key)), public_(shown) {}

  Key key_;  // an EVP_PKEY
  PublicKey public_;
};

/// The keys of one connection, by direction.
struct ConnectionKeys {
  Secret from_dialer;
  Secret from_listener;
  Cipher cipher = Cipher::kAes256Gcm;
};

/// The facts that a connection's keys depend on.
struct KeyFacts {
  const Secret& shared;               ///< Of the key exchange.
  const Secret& job;                  ///< A key of the job, so that both must fall.
  std::span<const std::byte> salt;    ///< Both nonces.
  std::span<const std::byte> hellos;  ///< Both: purpose, ranks, job and epoch, public keys, modes.
  Cipher cipher = Cipher::kAes256Gcm;
};

/// HKDF-SHA256 of them. Errors: as Secret::derive.
Result<ConnectionKeys> derive_keys(const KeyFacts& facts);

}  // namespace ronde::net
