#include "backends/net/link/encryption.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace ronde::net {

Encryption parse_encryption(std::string_view text) noexcept {
  if (text == "off") return Encryption::kOff;
  return text == "on" ? Encryption::kOn : Encryption::kRequired;
}

std::string_view to_string(Encryption mode) noexcept {
  switch (mode) {
    case Encryption::kOff:
      return "off";
    case Encryption::kOn:
      return "on";
    case Encryption::kRequired:
      break;
  }
  return "required";
}

std::string_view to_string(Cipher cipher) noexcept {
  return cipher == Cipher::kAes256Gcm ? "AES-256-GCM" : "ChaCha20-Poly1305";
}

bool cpu_has_aes() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#elif defined(__aarch64__)
  return (::getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
  return false;
#endif
}

}  // namespace ronde::net
