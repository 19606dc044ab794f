#include "backends/net/link/records.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

constexpr std::size_t kNonceBytes = 12;
constexpr int kKindShift = 24;
constexpr std::uint32_t kLengthMask = (std::uint32_t{1} << kKindShift) - 1;

EVP_CIPHER_CTX* context_of(void* context) noexcept { return static_cast<EVP_CIPHER_CTX*>(context); }

const unsigned char* octets(const void* bytes) noexcept {
  return static_cast<const unsigned char*>(bytes);
}

const EVP_CIPHER* algorithm(Cipher cipher) noexcept {
  return cipher == Cipher::kAes256Gcm ? EVP_aes_256_gcm() : EVP_chacha20_poly1305();
}

std::array<std::byte, kNonceBytes> nonce_of(std::uint64_t number) noexcept {
  std::array<std::byte, kNonceBytes> nonce{};
  std::memcpy(nonce.data() + kNonceBytes - sizeof(number), &number, sizeof(number));
  return nonce;
}

std::uint32_t word_of(RecordKind kind, std::size_t payload) noexcept {
  return (static_cast<std::uint32_t>(kind) << kKindShift) | static_cast<std::uint32_t>(payload);
}

Status not_authentic() { return {Code::kInvalidArgument, "not a record that the peer sealed"}; }

Status crypto_failed() { return {Code::kUnavailable, "OpenSSL offers no such cipher"}; }

}  // namespace

void RecordCipher::Free::operator()(void* context) const noexcept {
  EVP_CIPHER_CTX_free(context_of(context));
}

RecordCipher::RecordCipher(Cipher cipher, const Secret& key, bool seals,
                           std::uint64_t nonces_per_key)
    : cipher_(cipher), key_(key), seals_(seals), nonces_per_key_(nonces_per_key) {}

/// The first key is the connection's. Each further one is made of the one before it.
Status RecordCipher::use_next_key() {
  if (next_nonce_ != 0) {
    RONDE_ASSIGN_OR_RETURN(key_, key_.derive("ronde 2 next key"));
  }
  if (context_ == nullptr) context_.reset(EVP_CIPHER_CTX_new());
  const bool ready = context_ != nullptr &&
                     EVP_CipherInit_ex(context_of(context_.get()), algorithm(cipher_), nullptr,
                                       octets(key_.bytes().data()), nullptr, seals_ ? 1 : 0) == 1;
  return ready ? Status() : crypto_failed();
}

Status RecordCipher::begin(std::span<const std::byte> clear) {
  if (next_nonce_ % nonces_per_key_ == 0) RONDE_RETURN_IF_ERROR(use_next_key());
  const auto nonce = nonce_of(next_nonce_++);
  const bool begun = EVP_CipherInit_ex(context_of(context_.get()), nullptr, nullptr, nullptr,
                                       octets(nonce.data()), seals_ ? 1 : 0) == 1;
  return begun && update(clear.data(), clear.size(), nullptr) ? Status() : crypto_failed();
}

bool RecordCipher::update(const void* from, std::size_t bytes, void* to) {
  int written = 0;
  return EVP_CipherUpdate(context_of(context_.get()), static_cast<unsigned char*>(to), &written,
                          octets(from), static_cast<int>(bytes)) == 1;
}

bool RecordCipher::finish(std::span<std::byte, kTagBytes> tag) {
  std::array<unsigned char, kTagBytes> rest{};
  int written = 0;
  return EVP_CipherFinal_ex(context_of(context_.get()), rest.data(), &written) == 1 &&
         EVP_CIPHER_CTX_ctrl(context_of(context_.get()), EVP_CTRL_AEAD_GET_TAG, kTagBytes,
                             tag.data()) == 1;
}

bool RecordCipher::check(std::span<const std::byte, kTagBytes> tag) {
  std::array<unsigned char, kTagBytes> rest{};
  int written = 0;
  return EVP_CIPHER_CTX_ctrl(context_of(context_.get()), EVP_CTRL_AEAD_SET_TAG, kTagBytes,
                             const_cast<std::byte*>(tag.data())) == 1 &&
         EVP_CipherFinal_ex(context_of(context_.get()), rest.data(), &written) == 1;
}

Status Sealer::seal(RecordKind kind, std::span<const iovec> pieces, std::byte* to) {
  std::size_t payload = 0;
  for (const iovec& piece : pieces) payload += piece.iov_len;
  const std::uint32_t word = word_of(kind, payload);
  const std::span<std::byte> clear(to, sizeof(word));
  std::memcpy(to, &word, sizeof(word));
  RONDE_RETURN_IF_ERROR(cipher_.begin(clear));
  to += sizeof(word);
  if (!cipher_.finish(std::span<std::byte, kTagBytes>(to, kTagBytes))) return crypto_failed();
  if (payload == 0) return {};
  to += kTagBytes;
  RONDE_RETURN_IF_ERROR(cipher_.begin(clear));
  for (const iovec& piece : pieces) {
    if (piece.iov_len != 0 && !cipher_.update(piece.iov_base, piece.iov_len, to)) {
      return crypto_failed();
    }
    to += piece.iov_len;
  }
  return cipher_.finish(std::span<std::byte, kTagBytes>(to, kTagBytes)) ? Status()
                                                                        : crypto_failed();
}

Status Opener::check_head(std::span<const std::byte> head) {
  if (refused_ || head.size() != kHeadBytes) return not_authentic();
  std::copy_n(head.begin(), announced_.size(), announced_.begin());
  RONDE_RETURN_IF_ERROR(cipher_.begin(announced_));
  return cipher_.check(head.last<kTagBytes>()) ? Status() : not_authentic();
}

Result<RecordHead> Opener::open_head(std::span<const std::byte> head) {
  const Status authentic = check_head(head);
  refused_ = !authentic.ok();
  RONDE_RETURN_IF_ERROR(authentic);
  RONDE_ASSIGN_OR_RETURN(const auto word, decode_wire<std::uint32_t>(announced_, "record"));
  const RecordHead read{static_cast<RecordKind>(word >> kKindShift), word & kLengthMask};
  const bool data = read.kind == RecordKind::kData;
  const bool known = data || read.kind == RecordKind::kEnd || read.kind == RecordKind::kRefused;
  refused_ = !known || read.payload_bytes > kMaxPayloadBytes || data != (read.payload_bytes != 0);
  if (refused_) return not_authentic();
  return read;
}

Status Opener::open_body(std::span<const std::byte> body, std::span<const iovec> pieces) {
  if (std::exchange(refused_, true) || body.size() < kTagBytes) return not_authentic();
  const auto tag = body.last<kTagBytes>();
  auto sealed = body.first(body.size() - kTagBytes);
  RONDE_RETURN_IF_ERROR(cipher_.begin(announced_));
  for (const iovec& piece : pieces) {
    const std::size_t bytes = std::min(piece.iov_len, sealed.size());
    if (bytes != 0 && !cipher_.update(sealed.data(), bytes, piece.iov_base)) {
      return not_authentic();
    }
    sealed = sealed.subspan(bytes);
  }
  if (!sealed.empty() || !cipher_.check(tag)) return not_authentic();
  refused_ = false;
  return {};
}

}  // namespace ronde::net
