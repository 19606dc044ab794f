#include "backends/net/connection/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "backends/net/connection/socket.h"
#include "core/base/bytes.h"

namespace ronde::net {
namespace {

constexpr std::size_t kHexChars = 2 * Secret::kBytes;

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Result<Secret> parse_secret(const std::string& text, std::string_view source) {
  std::array<std::byte, Secret::kBytes> bytes{};
  std::size_t read = 0;
  const int good = OPENSSL_hexstr2buf_ex(reinterpret_cast<unsigned char*>(bytes.data()),
                                         bytes.size(), &read, text.c_str(), '\0');
  if (good == 1 && read == bytes.size()) return Secret(bytes);
  ERR_clear_error();
  return Status(Code::kInvalidArgument,
                fmt::format("{} does not hold a secret; it must start with {} hexadecimal digits",
                            source, kHexChars));
}

/// Up to kHexChars characters, from the start.
std::string read_text(int fd) {
  std::string text(kHexChars, '\0');
  std::size_t used = 0;
  while (used < kHexChars) {
    const ssize_t got = ::pread(fd, text.data() + used, kHexChars - used, static_cast<off_t>(used));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
  }
  text.resize(used);
  return text;
}

/// Another program may have closed the descriptor and opened something else under its number. So it
/// is only looked at.
Result<Secret> read_descriptor(int fd) {
  const std::string source = fmt::format("the descriptor RONDE_SECRET_FD={}", fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{} is no file; it must be an open file or memory file. Did a program "
                    "on the way here close it, as Python's subprocess does, or drop "
                    "RONDE_DESCRIPTORS from the environment? Pass all RONDE_* variables on",
                    source));
  }
  RONDE_ASSIGN_OR_RETURN(Secret secret, parse_secret(read_text(fd), source));
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return secret;
}

/// The file of a Secret volume in a pod with fsGroup: root's, readable by a group, on a tmpfs that
/// is mounted read-only. On any other file system the group may be all users of a cluster.
bool is_of_secret_volume(int fd, const struct stat& info) {
  struct statfs volume {};
  return info.st_uid == 0 && (info.st_mode & 037) == 0 && ::fstatfs(fd, &volume) == 0 &&
         volume.f_type == TMPFS_MAGIC && (volume.f_flags & ST_RDONLY) != 0;
}

Status check_private(int fd, const std::string& source) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return {Code::kInvalidArgument, fmt::format("{} is not a file", source)};
  }
  if (info.st_uid == ::geteuid() && (info.st_mode & 077) == 0) return {};
  if (is_of_secret_volume(fd, info)) return {};
  return {Code::kInvalidArgument,
          fmt::format("{} must belong to this user and be closed to others (chmod 600, or "
                      "defaultMode: 0400 of a Secret volume); its mode is {:o} and its owner {}",
                      source, info.st_mode & 07777, info.st_uid)};
}

}  // namespace

Result<Secret> read_secret_file(const std::string& path, const std::string& source) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return Status(Code::kInvalidArgument, fmt::format("{} cannot be read: {}", source,
                                                      std::generic_category().message(errno)));
  }
  RONDE_RETURN_IF_ERROR(check_private(fd.get(), source));
  return parse_secret(read_text(fd.get()), source);
}

Secret::Secret(std::span<const std::byte, kBytes> bytes) {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

Secret::~Secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

Result<Secret> Secret::random() {
  Secret secret;
  RONDE_RETURN_IF_ERROR(random_bytes(secret.bytes_));
  return secret;
}

Result<Secret> Secret::derive(std::string_view purpose) const {
  return hkdf(bytes_, {}, as_bytes(purpose));
}

Result<std::optional<Secret>> read_secret(const Config& config) {
  if (config.secret_fd < 0 && config.secret_file.empty()) return std::optional<Secret>();
  auto secret = config.secret_fd >= 0 ? read_descriptor(config.secret_fd)
                                      : read_secret_file(config.secret_file,
                                                         "RONDE_SECRET_FILE=" + config.secret_file);
  if (!secret.ok()) return secret.status();
  return std::optional<Secret>(*secret);
}

Result<Secret> hkdf(std::span<const std::byte> input, std::span<const std::byte> salt,
                    std::span<const std::byte> info) {
  const std::unique_ptr<EVP_KDF, void (*)(EVP_KDF*)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr),
                                                         EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, void (*)(EVP_KDF_CTX*)> context(
      kdf ? EVP_KDF_CTX_new(kdf.get()) : nullptr, EVP_KDF_CTX_free);
  std::string name = "SHA256";
  const auto octets = [](const char* key, std::span<const std::byte> bytes) {
    // OSSL_PARAM wants pointers to mutable memory
    return OSSL_PARAM_construct_octet_string(key, const_cast<std::byte*>(bytes.data()),
                                             bytes.size());
  };
  std::array<OSSL_PARAM, 5> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, name.data(), 0),
      octets(OSSL_KDF_PARAM_KEY, input), octets(OSSL_KDF_PARAM_INFO, info),
      octets(OSSL_KDF_PARAM_SALT, salt), OSSL_PARAM_construct_end()};
  if (salt.empty()) parameters[3] = OSSL_PARAM_construct_end();
  std::array<std::byte, Secret::kBytes> derived{};
  if (!context || EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(derived.data()),
                                 derived.size(), parameters.data()) <= 0) {
    return Status(Code::kUnavailable, "OpenSSL offers no HKDF-SHA256");
  }
  const Secret secret(derived);
  OPENSSL_cleanse(derived.data(), derived.size());
  return secret;
}

Digest proof(const Secret& key, std::span<const std::byte> message) {
  Digest out{};
  unsigned int length = out.size();
  HMAC(EVP_sha256(), key.bytes().data(), static_cast<int>(Secret::kBytes), raw(message),
       message.size(), reinterpret_cast<unsigned char*>(out.data()), &length);
  return out;
}

Digest digest(std::span<const std::byte> message) {
  Digest out{};
  unsigned int length = out.size();
  EVP_Digest(raw(message), message.size(), reinterpret_cast<unsigned char*>(out.data()), &length,
             EVP_sha256(), nullptr);
  return out;
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Status random_bytes(std::span<std::byte> out) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) == 1) {
    return {};
  }
  return {Code::kUnavailable, "the system gives no randomness"};
}

Endpoint private_endpoint(std::string_view purpose, const std::optional<Secret>& secret) {
  std::string what = fmt::format("{}\n{}", ::geteuid(), purpose);
  if (secret) what += as_text(secret->bytes());
  return abstract_endpoint("ronde-" + hex(digest(as_bytes(what))).substr(0, 40));
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

}  // namespace ronde::net
