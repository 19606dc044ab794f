// The modes and ciphers of encryption between hosts.
#pragma once

#include <cstdint>
#include <string_view>

namespace ronde::net {

/// The value of RONDE_ENCRYPTION.
enum class Encryption : std::uint8_t { kOff = 0, kOn = 1, kRequired = 2 };

/// Reads "off", "on" or "required"; anything else is kRequired.
Encryption parse_encryption(std::string_view text) noexcept;
std::string_view to_string(Encryption mode) noexcept;

enum class Cipher : std::uint8_t { kAes256Gcm = 1, kChaCha20Poly1305 = 2 };

std::string_view to_string(Cipher cipher) noexcept;

/// True if this CPU has instructions for AES.
bool cpu_has_aes() noexcept;

/// The cipher of two CPUs: AES unless neither has the instructions.
constexpr Cipher choose_cipher(bool one_has_aes, bool other_has_aes) noexcept {
  return one_has_aes || other_has_aes ? Cipher::kAes256Gcm : Cipher::kChaCha20Poly1305;
}

}  // namespace ronde::net
