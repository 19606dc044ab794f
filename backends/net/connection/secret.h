// The job's secret, and the keys and proofs made of it by OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/os/endpoint.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"

namespace ronde::net {

/// 256 bits that only this job's processes know. Wiped when destroyed.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  Secret() = default;
  explicit Secret(std::span<const std::byte, kBytes> bytes);
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  /// A new one. Errors: kUnavailable where the system gives no randomness.
  static Result<Secret> random();

  [[nodiscard]] std::span<const std::byte, kBytes> bytes() const noexcept { return bytes_; }

  /// A secret for one purpose, by HKDF-SHA256 (RFC 5869). It does not reveal the others.
  [[nodiscard]] Result<Secret> derive(std::string_view purpose) const;

 private:
  std::array<std::byte, kBytes> bytes_{};
};

using Digest = std::array<std::byte, 32>;

/// Reads the secret that `config` names, if any. A file is read from its start and kept (closed on
/// exec), so that a process may call it again. Nothing is read of any other descriptor.
/// Errors: kInvalidArgument naming the fault of the file and what is required.
Result<std::optional<Secret>> read_secret(const Config& config);

/// Reads the secret in a file of this user that is closed to others, or of a Secret volume of
/// Kubernetes that a group may read; errors call it `source`.
/// Errors: kInvalidArgument naming the fault of the file and what is required.
Result<Secret> read_secret_file(const std::string& path, const std::string& source);

/// HKDF-SHA256 (RFC 5869) of `input`. Errors: kUnavailable where libcrypto has none.
Result<Secret> hkdf(std::span<const std::byte> input, std::span<const std::byte> salt,
                    std::span<const std::byte> info);

/// HMAC-SHA256.
Digest proof(const Secret& key, std::span<const std::byte> message);

/// SHA-256.
Digest digest(std::span<const std::byte> message);

/// Compares in constant time.
bool equal(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

/// Fills with cryptographically strong randomness. Errors: kUnavailable.
Status random_bytes(std::span<std::byte> out);

/// The address of a Unix socket of this user. It can be guessed only if the secret is known or
/// there is none.
Endpoint private_endpoint(std::string_view purpose, const std::optional<Secret>& secret);

/// Lower-case hexadecimal.
std::string hex(std::span<const std::byte> bytes);

}  // namespace ronde::net
