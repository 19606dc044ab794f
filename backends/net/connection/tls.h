// The encrypted form of a connection: TLS 1.3 (RFC 8446) of OpenSSL. Both ends hold a key that they
// made of the job's secret, so there are no certificates: the key is an external PSK, used with an
// ephemeral X25519 exchange (psk_dhe_ke).
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "backends/net/connection/secret.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

struct ssl_st;  // OpenSSL's SSL and BIO
struct bio_st;

namespace ronde::net {

// The modes and ciphers of encryption between hosts.

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

// TLS's records.

/// The beginning of each record: 5 bytes, the last two of which are the length of the rest.
inline constexpr std::size_t kRecordHeadBytes = 5;
inline constexpr std::size_t kMaxRecordBytes = std::size_t{16384} + 256;
/// Records under one key before the next. RFC 8446 (5.5) allows AES-GCM 2^24.5.
inline constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 24;

/// The length that the beginning of a record announces.
std::size_t length_of_record(std::span<const std::byte> head) noexcept;

struct TlsArgs {
  bool dials = false;  ///< The dialer is TLS's client.
  const Secret& key;   ///< Of this connection alone.
  Cipher cipher = Cipher::kAes256Gcm;
  std::uint64_t records_per_key = kRecordsPerKey;
};

/// One end of an encrypted connection. Its first calls carry the handshake of TLS without a socket;
/// the others are those of Stream, with the socket's descriptor. Threads: as Stream.
class Tls {
 public:
  /// Errors: kUnavailable where OpenSSL lacks something.
  static Result<std::unique_ptr<Tls>> make(const TlsArgs& args);

  // The handshake.

  /// Goes on behind `records`, whole ones of the peer; a client begins with none. Errors:
  /// kInvalidArgument where the peer has another key.
  Status shake_hands(std::span<const std::byte> records);
  /// True once both ends have proved that they have the key.
  [[nodiscard]] bool established() const noexcept;
  /// Encrypts a short text; it is then in take_output().
  Status put(std::string_view text);
  /// Decrypts whole records of the peer. Errors: kInvalidArgument.
  Result<std::string> open(std::span<const std::byte> records);
  /// The bytes to send now.
  std::string take_output();

  // The connection.

  /// Names both ends in errors: "rank 0 on node1 and rank 1 on node2".
  void set_ends(std::string ends) { ends_ = std::move(ends); }

  Result<std::size_t> send(int fd, std::span<const iovec> pieces) RONDE_EXCLUDES(mutex_);
  [[nodiscard]] bool has_unsent() const noexcept RONDE_EXCLUDES(mutex_);
  Status flush(int fd) RONDE_EXCLUDES(mutex_);
  Result<std::size_t> receive(int fd, std::span<const iovec> pieces) RONDE_EXCLUDES(mutex_);
  [[nodiscard]] bool has_unread() const noexcept RONDE_EXCLUDES(mutex_);

  /// Tells the peer that this end closes the connection, if the socket takes it now. A forked child
  /// sends nothing.
  void end(int fd) noexcept RONDE_EXCLUDES(mutex_);

 private:
  struct Free {
    void operator()(ssl_st* ssl) const noexcept;
    void operator()(bio_st* bio) const noexcept;
  };

  Tls(ssl_st* ssl, std::uint64_t records_per_key) noexcept
      : ssl_(ssl), records_per_key_(records_per_key) {}

  bool feed(std::span<const std::byte> records) noexcept;
  Status write_out(int fd) RONDE_REQUIRES(mutex_);
  [[nodiscard]] bool has_room() const noexcept RONDE_REQUIRES(mutex_);
  std::span<const std::byte> next_payload(std::span<const iovec> pieces, std::size_t from)
      RONDE_REQUIRES(mutex_);
  Status encrypt(std::span<const std::byte> payload) RONDE_REQUIRES(mutex_);
  /// Returns how much there was; 0: read from the socket first.
  Result<std::size_t> decrypt(std::span<std::byte> room) RONDE_REQUIRES(mutex_);
  [[nodiscard]] bool holds_input() const noexcept RONDE_REQUIRES(mutex_);
  Result<std::size_t> read_in(int fd) RONDE_REQUIRES(mutex_);
  Status receive_into(int fd, std::span<std::byte> room, std::size_t& done, bool& dry)
      RONDE_REQUIRES(mutex_);
  [[nodiscard]] Status why(int result) const;

  const pid_t process_ = ::getpid();
  std::string ends_;
  // OpenSSL's object, and the outer end of its pair of buffers: what it writes is read there.
  mutable Mutex mutex_;  // OpenSSL's object serves one thread at a time
  std::unique_ptr<ssl_st, Free> ssl_;
  std::unique_ptr<bio_st, Free> outer_;
  const std::uint64_t records_per_key_;
  std::uint64_t records_ RONDE_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<std::byte[]> joined_ RONDE_GUARDED_BY(mutex_);  // pieces of one record
  Status over_ RONDE_GUARDED_BY(mutex_);                          // why nothing comes any more
};

}  // namespace ronde::net
