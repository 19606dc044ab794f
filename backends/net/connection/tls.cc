#include "backends/net/connection/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>

#include "backends/net/connection/socket.h"
#include "core/base/bytes.h"

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

namespace {

constexpr std::size_t kPayloadBytes = SSL3_RT_MAX_PLAIN_LENGTH;
/// A record, and a word about the next key before it.
constexpr std::size_t kRecordRoom = kRecordHeadBytes + kMaxRecordBytes + 256;
/// The socket takes and gives so much at once.
constexpr std::size_t kBufferBytes = 16 * kRecordRoom;
constexpr std::string_view kIdentity = "ronde";

const unsigned char* octets(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// Gives OpenSSL the key, which it frees.
int session_of(SSL* ssl, SSL_SESSION** session) {
  *session = static_cast<SSL_SESSION*>(SSL_get_app_data(ssl));
  return SSL_SESSION_up_ref(*session);
}

int key_of_client(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* bytes,
                  SSL_SESSION** session) {
  *identity = octets(kIdentity);
  *bytes = kIdentity.size();
  return session_of(ssl, session);
}

int key_of_server(SSL* ssl, const unsigned char*, std::size_t, SSL_SESSION** session) {
  return session_of(ssl, session);
}

/// TLS 1.3 by the key alone: no certificate is trusted, and no session is resumed.
SSL_CTX* make_context() {
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  if (context == nullptr) return nullptr;
  const bool ready =
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set1_groups_list(context, "X25519") == 1 &&
      SSL_CTX_set_session_id_context(context, octets(kIdentity), kIdentity.size()) == 1 &&
      SSL_CTX_set_num_tickets(context, 0) == 1;
  SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_psk_use_session_callback(context, key_of_client);
  SSL_CTX_set_psk_find_session_callback(context, key_of_server);
  if (ready) return context;
  SSL_CTX_free(context);
  return nullptr;
}

/// Lives as long as the process.
SSL_CTX* context() {
  static SSL_CTX* const made = make_context();
  return made;
}

const char* suite_of(Cipher cipher) noexcept {
  return cipher == Cipher::kAes256Gcm ? "TLS_AES_256_GCM_SHA384" : "TLS_CHACHA20_POLY1305_SHA256";
}

bool set_key(SSL* ssl, const TlsArgs& args) {
  constexpr std::array<unsigned char, 2> kAes{0x13, 0x02};
  constexpr std::array<unsigned char, 2> kChaCha{0x13, 0x03};
  const auto& suite = args.cipher == Cipher::kAes256Gcm ? kAes : kChaCha;
  SSL_SESSION* const session = SSL_SESSION_new();
  SSL_set_app_data(ssl, session);  // freed with the object
  const auto* const key = reinterpret_cast<const unsigned char*>(args.key.bytes().data());
  return session != nullptr &&
         SSL_SESSION_set1_master_key(session, key, args.key.bytes().size()) == 1 &&
         SSL_SESSION_set1_id_context(session, octets(kIdentity), kIdentity.size()) == 1 &&
         SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite.data())) == 1 &&
         SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
         SSL_set_ciphersuites(ssl, suite_of(args.cipher)) == 1;
}

Status unavailable() {
  ERR_clear_error();
  return {Code::kUnavailable, "OpenSSL offers no TLS 1.3 with X25519 and this cipher"};
}

Status refused(std::string_view why) {
  ERR_clear_error();
  return {Code::kInvalidArgument, std::string(why)};
}

}  // namespace

std::size_t length_of_record(std::span<const std::byte> head) noexcept {
  return (std::to_integer<std::size_t>(head[3]) << 8) | std::to_integer<std::size_t>(head[4]);
}

void Tls::Free::operator()(SSL* ssl) const noexcept {
  SSL_SESSION_free(static_cast<SSL_SESSION*>(SSL_get_app_data(ssl)));
  SSL_free(ssl);
}

void Tls::Free::operator()(BIO* bio) const noexcept { BIO_free(bio); }

Result<std::unique_ptr<Tls>> Tls::make(const TlsArgs& args) {
  SSL* const ssl = context() == nullptr ? nullptr : SSL_new(context());
  if (ssl == nullptr) return unavailable();
  std::unique_ptr<Tls> made(new Tls(ssl, args.records_per_key));
  BIO* inner = nullptr;
  BIO* outer = nullptr;
  if (!set_key(ssl, args) || BIO_new_bio_pair(&inner, kBufferBytes, &outer, kBufferBytes) != 1) {
    return unavailable();
  }
  made->outer_.reset(outer);
  SSL_set_bio(ssl, inner, inner);
  SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  args.dials ? SSL_set_connect_state(ssl) : SSL_set_accept_state(ssl);
  return made;
}

// The handshake.

/// False where so many bytes are more than a handshake has.
bool Tls::feed(std::span<const std::byte> records) noexcept {
  const int bytes = static_cast<int>(records.size());
  return bytes == 0 || BIO_write(outer_.get(), records.data(), bytes) == bytes;
}

Status Tls::shake_hands(std::span<const std::byte> records) {
  if (!feed(records)) return refused("too many bytes of a handshake");
  ERR_clear_error();  // of the program's own calls
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1 && SSL_session_reused(ssl_.get()) == 1) return {};
  if (result != 1 && SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return {};
  return refused("the other side has another key for this connection");
}

bool Tls::established() const noexcept { return SSL_is_init_finished(ssl_.get()) == 1; }

Status Tls::put(std::string_view text) {
  const MutexLock lock(mutex_);
  return encrypt(as_bytes(text));
}

Result<std::string> Tls::open(std::span<const std::byte> records) {
  if (!feed(records)) return refused("too many bytes of a handshake");
  std::string text(kPayloadBytes, '\0');
  std::size_t done = 0;
  const MutexLock lock(mutex_);
  while (done < text.size()) {
    const auto room = std::as_writable_bytes(std::span(text)).subspan(done);
    RONDE_ASSIGN_OR_RETURN(const std::size_t got, decrypt(room));
    if (got == 0) break;
    done += got;
  }
  text.resize(done);
  return text;
}

std::string Tls::take_output() {
  std::string bytes(BIO_ctrl_pending(outer_.get()), '\0');
  const int most = static_cast<int>(bytes.size());
  if (most != 0) (void)BIO_read(outer_.get(), bytes.data(), most);
  return bytes;
}

// Sending.

bool Tls::has_room() const noexcept {
  return BIO_ctrl_pending(outer_.get()) + kRecordRoom <= kBufferBytes;
}

/// The next bytes for a record: in place, or joined where a piece is too short.
std::span<const std::byte> Tls::next_payload(std::span<const iovec> pieces, std::size_t from) {
  std::size_t joined = 0;
  for (const iovec& piece : pieces) {
    const std::size_t skipped = std::min(from, piece.iov_len);
    from -= skipped;
    const auto* const start = static_cast<const std::byte*>(piece.iov_base) + skipped;
    const std::size_t left = piece.iov_len - skipped;
    if (left == 0) continue;
    const bool last = &piece == &pieces.back();
    if (joined == 0 && (last || left >= kPayloadBytes)) {
      return {start, std::min(left, kPayloadBytes)};
    }
    if (joined_ == nullptr) joined_ = std::make_unique_for_overwrite<std::byte[]>(kPayloadBytes);
    const std::size_t bytes = std::min(left, kPayloadBytes - joined);
    std::memcpy(joined_.get() + joined, start, bytes);
    joined += bytes;
  }
  return {joined_.get(), joined};
}

/// Writes one record to the buffer, which has room.
Status Tls::encrypt(std::span<const std::byte> payload) {
  if (++records_ % records_per_key_ == 0) {
    const bool begun = SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1;
    if (!begun || SSL_do_handshake(ssl_.get()) != 1) return unavailable();
  }
  std::size_t written = 0;
  const int result = SSL_write_ex(ssl_.get(), payload.data(), payload.size(), &written);
  if (result != 1) return why(result);
  return written == payload.size() ? Status() : unavailable();
}

Result<std::size_t> Tls::send(int fd, std::span<const iovec> pieces) {
  const MutexLock lock(mutex_);
  RONDE_RETURN_IF_ERROR(write_out(fd));
  if (BIO_ctrl_pending(outer_.get()) != 0) return std::size_t{0};
  const std::size_t most = total_of(pieces);
  std::size_t taken = 0;
  while (taken < most && has_room()) {
    const auto payload = next_payload(pieces, taken);
    RONDE_RETURN_IF_ERROR(encrypt(payload));
    taken += payload.size();
  }
  RONDE_RETURN_IF_ERROR(write_out(fd));
  return taken;
}

bool Tls::has_unsent() const noexcept {
  const MutexLock lock(mutex_);
  return BIO_ctrl_pending(outer_.get()) != 0;
}

Status Tls::flush(int fd) {
  const MutexLock lock(mutex_);
  return write_out(fd);
}

Status Tls::write_out(int fd) {
  char* start = nullptr;
  while (true) {
    const int ready = BIO_nread0(outer_.get(), &start);
    if (ready <= 0) return {};
    const iovec piece{start, static_cast<std::size_t>(ready)};
    RONDE_ASSIGN_OR_RETURN(const std::size_t sent, send_pieces(fd, {&piece, 1}));
    if (sent == 0) return {};
    (void)BIO_nread(outer_.get(), &start, static_cast<int>(sent));
  }
}

/// After an error OpenSSL has told the peer instead.
void Tls::end(int fd) noexcept {
  if (::getpid() != process_) return;
  const MutexLock lock(mutex_);
  if (!write_out(fd).ok() || BIO_ctrl_pending(outer_.get()) != 0) return;
  if (SSL_shutdown(ssl_.get()) < 0) ERR_clear_error();
  (void)write_out(fd).ok();
}

// Receiving.

Result<std::size_t> Tls::receive(int fd, std::span<const iovec> pieces) {
  const MutexLock lock(mutex_);
  std::size_t done = 0;
  bool dry = false;
  for (const iovec& piece : pieces) {
    const std::span room(static_cast<std::byte*>(piece.iov_base), piece.iov_len);
    if (over_.ok() && !dry) over_ = receive_into(fd, room, done, dry);
  }
  if (done == 0 && total_of(pieces) != 0) RONDE_RETURN_IF_ERROR(over_);
  return done;
}

/// Fills one piece. `dry`: nothing more has arrived. The socket is asked only while nothing is
/// `done`.
Status Tls::receive_into(int fd, std::span<std::byte> room, std::size_t& done, bool& dry) {
  while (!room.empty()) {
    std::size_t got = 0;
    if (holds_input()) {
      RONDE_ASSIGN_OR_RETURN(got, decrypt(room));
    }
    room = room.subspan(got);
    done += got;
    if (got != 0) continue;
    dry = done != 0;
    if (dry) break;
    RONDE_ASSIGN_OR_RETURN(const std::size_t arrived, read_in(fd));
    dry = arrived == 0;
    if (dry) break;
  }
  return {};
}

Result<std::size_t> Tls::decrypt(std::span<std::byte> room) {
  if (ERR_peek_error() != 0) ERR_clear_error();  // of the program's own calls
  std::size_t got = 0;
  const int result = SSL_read_ex(ssl_.get(), room.data(), room.size(), &got);
  if (result == 1) return got;
  if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return std::size_t{0};
  return why(result);
}

/// Reads what has arrived into the buffer.
Result<std::size_t> Tls::read_in(int fd) {
  char* start = nullptr;
  const int free = BIO_nwrite0(outer_.get(), &start);
  if (free <= 0) return std::size_t{0};
  const iovec room{start, static_cast<std::size_t>(free)};
  RONDE_ASSIGN_OR_RETURN(const Received got, receive_pieces(fd, {&room, 1}));
  if (got.ended) {
    return Status(Code::kUnavailable,
                  "ended without its sealed end: the peer died, or somebody cut the connection");
  }
  if (got.bytes != 0) (void)BIO_nwrite(outer_.get(), &start, static_cast<int>(got.bytes));
  return got.bytes;
}

/// True where decrypt() has something to do.
bool Tls::holds_input() const noexcept {
  return SSL_pending(ssl_.get()) > 0 || BIO_ctrl_wpending(outer_.get()) != 0;
}

bool Tls::has_unread() const noexcept {
  const MutexLock lock(mutex_);
  return !over_.ok() || holds_input();
}

/// The reason why OpenSSL goes on no further.
Status Tls::why(int result) const {
  if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_ZERO_RETURN) {
    return {Code::kUnavailable, "was closed"};
  }
  const bool by_peer = ERR_GET_REASON(ERR_peek_error()) >= SSL_AD_REASON_OFFSET;
  return refused(
      fmt::format("between {} {} a record that is not as it was sent: it was changed, "
                  "replayed, dropped or moved on the way",
                  ends_, by_peer ? "was closed by the peer, as it delivered" : "delivered"));
}

}  // namespace ronde::net
