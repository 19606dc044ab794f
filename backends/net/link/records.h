// Sealed records: the form of all bytes of an encrypted connection.
//
//   head: length and kind (4 bytes, in clear), tag (16 bytes)
//   body, if the length is not 0: sealed bytes, tag (16 bytes)
//
// Head and body are sealed with a nonce each: a number that counts up in one direction and is not
// sent. So both open in their place only: a record that was changed, replayed, dropped or moved is
// refused. The head has a tag of its own, so that nobody waits for a length that nobody sent.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backends/net/link/encryption.h"
#include "backends/net/rendezvous/secret.h"
#include "core/base/status.h"

namespace ronde::net {

enum class RecordKind : std::uint8_t {
  kData = 1,
  kEnd = 2,      ///< The sender closes the connection; nothing follows.
  kRefused = 3,  ///< The sender closes it, as a record that it received did not open.
};

inline constexpr std::size_t kTagBytes = 16;
inline constexpr std::size_t kHeadBytes = 4 + kTagBytes;
inline constexpr std::size_t kMaxPayloadBytes = std::size_t{64} << 10;

/// The bytes of a body, tag included; of a whole record.
constexpr std::size_t body_bytes(std::size_t payload) noexcept {
  return payload == 0 ? 0 : payload + kTagBytes;
}
constexpr std::size_t record_bytes(std::size_t payload) noexcept {
  return kHeadBytes + body_bytes(payload);
}
inline constexpr std::size_t kMaxRecordBytes = record_bytes(kMaxPayloadBytes);

/// Nonces under one key before the next. RFC 8446 (5.5) allows AES-GCM about 2^34 blocks; these
/// are 2^33, as every other nonce is a head's.
inline constexpr std::uint64_t kNoncesPerKey = std::uint64_t{1} << 22;

struct RecordHead {
  RecordKind kind = RecordKind::kData;
  std::size_t payload_bytes = 0;
};

/// The cipher of one direction: its key, and the next nonce.
class RecordCipher {
 public:
  RecordCipher(Cipher cipher, const Secret& key, bool seals, std::uint64_t nonces_per_key);

  /// Begins with the next nonce; `clear` is authenticated with what follows.
  /// Errors: kUnavailable where libcrypto lacks the cipher.
  Status begin(std::span<const std::byte> clear);
  /// Seals or opens some bytes.
  bool update(const void* from, std::size_t bytes, void* to);
  /// Ends what is sealed: writes the tag.
  bool finish(std::span<std::byte, kTagBytes> tag);
  /// Ends what is opened: true if it is authentic.
  bool check(std::span<const std::byte, kTagBytes> tag);

 private:
  struct Free {
    void operator()(void* context) const noexcept;
  };
  Status use_next_key();

  Cipher cipher_;
  Secret key_;
  bool seals_;
  std::uint64_t nonces_per_key_;
  std::uint64_t next_nonce_ = 0;
  std::unique_ptr<void, Free> context_;  // an EVP_CIPHER_CTX
};

/// Seals what one end sends. Threads: one.
class Sealer {
 public:
  Sealer(Cipher cipher, const Secret& key, std::uint64_t nonces_per_key = kNoncesPerKey)
      : cipher_(cipher, key, true, nonces_per_key) {}

  /// Writes one record to `to`: `pieces` joined, kMaxPayloadBytes at most. There is room for
  /// record_bytes() of it. Errors: kUnavailable where libcrypto fails.
  Status seal(RecordKind kind, std::span<const iovec> pieces, std::byte* to);

 private:
  RecordCipher cipher_;
};

/// Opens what one end receives, heads and bodies in turn. After an error nothing opens any more,
/// and the pieces hold nothing of use. Threads: one.
/// Errors: kInvalidArgument where it is not what the peer sealed next.
class Opener {
 public:
  Opener(Cipher cipher, const Secret& key, std::uint64_t nonces_per_key = kNoncesPerKey)
      : cipher_(cipher, key, false, nonces_per_key) {}

  /// Opens kHeadBytes bytes.
  Result<RecordHead> open_head(std::span<const std::byte> head);
  /// Opens the body that the last head announced into `pieces`, which have room for it.
  Status open_body(std::span<const std::byte> body, std::span<const iovec> pieces);

 private:
  Status check_head(std::span<const std::byte> head);

  RecordCipher cipher_;
  std::array<std::byte, kHeadBytes - kTagBytes> announced_{};  // the last head without its tag
  bool refused_ = false;
};

}  // namespace ronde::net
