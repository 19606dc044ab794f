#include "backends/net/connection/handshake.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/net/connection/frame.h"
#include "core/base/bytes.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

constexpr std::array<char, 8> kMagic = {'R', 'O', 'N', 'D', 'E', '\r', '\n', '\x1a'};
constexpr std::uint16_t kProtocol = 6;
constexpr std::size_t kTailAt = kHelloBytes - sizeof(Digest);

/// The first bytes of a connection. The protocol comes before all that may change with it.
struct HelloFields {
  std::array<char, 8> magic = kMagic;
  std::uint16_t protocol = kProtocol;
  Purpose purpose = Purpose::kHost;
  std::uint32_t rank = 0;
  Encryption encryption = Encryption::kOff;
  std::uint8_t has_aes = 0;
  std::uint8_t checksums = 0;
  std::array<std::byte, 5> reserved{};
  std::array<std::byte, 16> nonce{};
  Digest tail{};  ///< A dialer's job as a hash; a listener's proof.

  static void fields(auto& wire, auto& self) {
    wire(self.magic, self.protocol, self.purpose, self.rank, self.encryption, self.has_aes,
         self.checksums, self.reserved, self.nonce, self.tail);
  }
};
static_assert(sizeof(HelloFields) == kHelloBytes);

constexpr std::string_view kWrongProof =
    "a wrong proof: the other side has another secret; RONDE_SECRET_FILE must hold the same one on "
    "all hosts";

Status refuse(std::string_view why) { return {Code::kInvalidArgument, std::string(why)}; }

}  // namespace

std::string name_of(const FailedRank& who) {
  return fmt::format("rank {} (pid {} on {})", who.rank, who.pid, who.host);
}

Result<Keys> Keys::derive(const Secret& secret) {
  Keys keys;
  RONDE_ASSIGN_OR_RETURN(keys.dialer, secret.derive("ronde 2 dialer proof"));
  RONDE_ASSIGN_OR_RETURN(keys.listener, secret.derive("ronde 2 listener proof"));
  RONDE_ASSIGN_OR_RETURN(keys.session, secret.derive("ronde 2 session"));
  return keys;
}

Digest hash_of_context(std::string_view context) { return digest(as_bytes(context)); }

Handshake::Handshake(std::shared_ptr<const Identity> identity, int expected_rank)
    : identity_(std::move(identity)), dials_(true), expected_rank_(expected_rank) {}

Handshake::Handshake(GreetingReader reader, int expected_rank)
    : read_greeting_(std::move(reader)), dials_(true), expected_rank_(expected_rank) {}

Handshake::Handshake(IdentityLookup lookup)
    : lookup_(std::move(lookup)), dials_(false), expected_rank_(-1) {}

Handshake::Hello Handshake::make_hello(const Digest& tail) const {
  const auto bytes =
      encode_wire(HelloFields{.purpose = identity_->purpose,
                              .rank = static_cast<std::uint32_t>(identity_->rank),
                              .encryption = identity_->encryption,
                              .has_aes = static_cast<std::uint8_t>(identity_->has_aes ? 1 : 0),
                              .checksums = static_cast<std::uint8_t>(identity_->checksums ? 1 : 0),
                              .nonce = nonce_,
                              .tail = tail});
  Hello hello{};
  std::copy(bytes.begin(), bytes.end(), hello.begin());
  return hello;
}

Status Handshake::start() {
  RONDE_RETURN_IF_ERROR(random_bytes(nonce_));
  if (read_greeting_) {
    expect(Step::kGreetingHead, kFrameHeadBytes);
  } else if (dials_) {
    begin_dialing();
  }
  return {};
}

void Handshake::begin_dialing() {
  dialer_hello_ = make_hello(hash_of_context(identity_->context));
  output_ += as_text(dialer_hello_);
  expect(Step::kHello, kHelloBytes);
}

/// Goes on with the body of a frame, of `most` bytes; anything else is an error.
Status Handshake::on_head(std::span<const std::byte> bytes, Step body, std::size_t most,
                          const Status& otherwise) {
  const FrameHead head = decode_head(bytes);
  if (head.kind != FrameKind::kData || head.length == 0 || head.length > most) return otherwise;
  expect(body, head.length);
  return {};
}

Status Handshake::on_greeting(std::span<const std::byte> bytes) {
  greeted_ = true;
  RONDE_ASSIGN_OR_RETURN(identity_, read_greeting_(as_text(bytes)));
  begin_dialing();
  return {};
}

Digest Handshake::listener_proof() const {
  std::string message(as_text(dialer_hello_));
  message += as_text(std::span(listener_hello_).first(kTailAt));
  return proof(identity_->keys.listener, as_bytes(message));
}

Digest Handshake::dialer_proof() const {
  std::string message(as_text(dialer_hello_));
  message += as_text(listener_hello_);
  return proof(identity_->keys.dialer, as_bytes(message));
}

void Handshake::expect(Step step, std::size_t bytes) noexcept {
  step_ = step;
  wants_ = bytes;
}

Status Handshake::consume(std::span<const std::byte> bytes) {
  if (bytes.size() != wants_) return refuse("a wrong number of bytes");
  switch (step_) {
    case Step::kGreetingHead:
      return on_head(bytes, Step::kGreeting, kMaxGreetingBytes,
                     {Code::kUnavailable, "another program listens there"});
    case Step::kGreeting:
      return on_greeting(bytes);
    case Step::kHello:
      return on_hello(bytes);
    case Step::kProof:
      return on_proof(bytes);
    case Step::kRecordHead:
      return on_record_head(bytes);
    case Step::kRecord:
      return on_record(bytes);
    case Step::kHead:
      return on_head(bytes, Step::kIntroduction, kMaxIntroductionBytes,
                     refuse("an oversized introduction"));
    case Step::kIntroduction:
      return on_introduction(bytes);
    case Step::kDone:
      break;
  }
  return refuse("bytes after the end of the handshake");
}

Status Handshake::check_hello(const Hello& hello) {
  RONDE_ASSIGN_OR_RETURN(const auto theirs, decode_wire<HelloFields>(hello, "hello"));
  if (theirs.magic != kMagic) return refuse("no Ronde peer");
  if (theirs.protocol != kProtocol) return refuse("another protocol");
  if (lookup_) RONDE_RETURN_IF_ERROR(find_identity(theirs.purpose, theirs.tail));
  if (theirs.purpose != identity_->purpose) return refuse("another purpose");
  peer_rank_ = static_cast<int>(theirs.rank);
  if (theirs.rank >= static_cast<std::uint32_t>(identity_->size) || peer_rank_ == identity_->rank) {
    return refuse("an impossible rank");
  }
  if (expected_rank_ >= 0 && peer_rank_ != expected_rank_) return refuse("an unexpected rank");
  if (theirs.encryption > Encryption::kRequired) return refuse("an unknown mode of encryption");
  peer_encryption_ = theirs.encryption;
  peer_checksums_ = theirs.checksums != 0;
  return {};
}

Status Handshake::find_identity(Purpose purpose, const Digest& context) {
  identity_ = lookup_(purpose, context);
  return identity_ != nullptr ? Status() : refuse("another job or group");
}

Status Handshake::on_hello(std::span<const std::byte> bytes) {
  Hello& theirs = dials_ ? listener_hello_ : dialer_hello_;
  std::copy(bytes.begin(), bytes.end(), theirs.begin());
  RONDE_RETURN_IF_ERROR(check_hello(theirs));
  const auto tail = std::span<const std::byte>(theirs).subspan(kTailAt);
  if (dials_) {
    if (!equal(tail, listener_proof())) {
      output_ += std::string(sizeof(Digest), '\0');
      return refuse(kWrongProof);
    }
    output_ += as_text(dialer_proof());
    return on_proved();
  }
  if (!equal(tail, hash_of_context(identity_->context))) return refuse("another job");
  listener_hello_ = make_hello({});
  listener_hello_ = make_hello(listener_proof());
  output_ += as_text(listener_hello_);
  expect(Step::kProof, sizeof(Digest));
  return {};
}

Status Handshake::on_proof(std::span<const std::byte> bytes) {
  if (!equal(bytes, dialer_proof())) return refuse(kWrongProof);
  return on_proved();
}

/// Both hellos are authentic, with their modes.
Status Handshake::on_proved() {
  if (identity_->encryption != Encryption::kOff && peer_encryption_ != Encryption::kOff) {
    RONDE_RETURN_IF_ERROR(begin_tls());
    expect(Step::kRecordHead, kRecordHeadBytes);
    return {};
  }
  expect(Step::kHead, kFrameHeadBytes);
  return dials_ ? put_introduction() : Status();
}

/// The key depends on all facts of the hellos, such as both nonces.
Status Handshake::begin_tls() {
  RONDE_ASSIGN_OR_RETURN(const auto dialer, decode_wire<HelloFields>(dialer_hello_, "hello"));
  RONDE_ASSIGN_OR_RETURN(const auto listener, decode_wire<HelloFields>(listener_hello_, "hello"));
  std::string facts("ronde 3 connection ");
  facts += as_text(dialer_hello_);
  facts += as_text(listener_hello_);
  RONDE_ASSIGN_OR_RETURN(const Secret key, identity_->keys.session.derive(facts));
  RONDE_ASSIGN_OR_RETURN(
      tls_, Tls::make({.dials = dials_,
                       .key = key,
                       .cipher = choose_cipher(dialer.has_aes != 0, listener.has_aes != 0)}));
  RONDE_RETURN_IF_ERROR(tls_->shake_hands({}));
  output_ += tls_->take_output();
  return {};
}

Status Handshake::on_record_head(std::span<const std::byte> bytes) {
  const std::size_t length = length_of_record(bytes);
  if (length == 0 || length > kMaxRecordBytes) return refuse("an oversized record");
  record_.assign(bytes.begin(), bytes.end());
  expect(Step::kRecord, length);
  return {};
}

Status Handshake::on_record(std::span<const std::byte> bytes) {
  record_.insert(record_.end(), bytes.begin(), bytes.end());
  expect(Step::kRecordHead, kRecordHeadBytes);
  if (tls_->established()) {
    RONDE_ASSIGN_OR_RETURN(const std::string text, tls_->open(record_));
    return on_introduction(as_bytes(text));
  }
  RONDE_RETURN_IF_ERROR(tls_->shake_hands(record_));
  output_ += tls_->take_output();
  return dials_ && tls_->established() ? put_introduction() : Status();
}

Status Handshake::on_introduction(std::span<const std::byte> bytes) {
  RONDE_ASSIGN_OR_RETURN(peer_, decode_wire<Introduction>(bytes, "introduction"));
  if (!dials_) RONDE_RETURN_IF_ERROR(put_introduction());
  expect(Step::kDone, 0);
  RONDE_RETURN_IF_ERROR(compare_versions());
  return compare_encryption();
}

Status Handshake::put_introduction() {
  const auto text = encode_wire<std::string>(identity_->self);
  if (!tls_) {
    output_ += frame_of(text);
    return {};
  }
  RONDE_RETURN_IF_ERROR(tls_->put(text));
  output_ += tls_->take_output();
  return {};
}

/// Calls `line` for both ends. Returns the text of the lower rank first.
std::pair<std::string, std::string> Handshake::by_rank(auto line) const {
  std::string mine = line(identity_->rank, identity_->self, identity_->encryption);
  std::string theirs = line(peer_rank_, peer_, peer_encryption_);
  if (peer_rank_ < identity_->rank) std::swap(mine, theirs);
  return {std::move(mine), std::move(theirs)};
}

std::unique_ptr<Tls> Handshake::take_tls() {
  if (!tls_) return nullptr;
  const auto [lower, higher] = by_rank([](int rank, const Introduction& intro, Encryption) {
    return fmt::format("rank {} on {}", rank, intro.host_name);
  });
  tls_->set_ends(fmt::format("{} and {}", lower, higher));
  return std::move(tls_);
}

Status Handshake::compare_versions() const {
  if (peer_.version == identity_->self.version) return {};
  const auto [lower, higher] = by_rank([](int rank, const Introduction& intro, Encryption) {
    return fmt::format("rank {} on {} runs Ronde {}", rank, intro.host_name, intro.version);
  });
  return {Code::kVersionMismatch,
          fmt::format("{}, but {}; install the same version on all hosts", lower, higher)};
}

Status Handshake::compare_encryption() const {
  if (peer_encryption_ == identity_->encryption) return {};
  const auto [lower, higher] = by_rank([](int rank, const Introduction& intro, Encryption mode) {
    return fmt::format("rank {} on {} has RONDE_ENCRYPTION={}", rank, intro.host_name,
                       to_string(mode));
  });
  return {Code::kMismatch,
          fmt::format("{}, but {}; set the same value (off, on or required) on all ranks", lower,
                      higher)};
}

}  // namespace ronde::net
