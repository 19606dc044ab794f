#include "backends/net/rendezvous/handshake.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

constexpr std::array<char, 8> kMagic = {'R', 'O', 'N', 'D', 'E', '\r', '\n', '\x1a'};
constexpr std::uint16_t kProtocol = 2;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kTailAt = kHelloBytes - sizeof(Digest);

/// The first bytes of a connection. The protocol comes before all that may change with it.
struct HelloFields {
  std::array<char, 8> magic = kMagic;
  std::uint16_t protocol = kProtocol;
  Purpose purpose = Purpose::kHost;
  std::uint32_t rank = 0;
  Encryption encryption = Encryption::kOff;
  std::uint8_t has_aes = 0;
  std::array<std::byte, 6> reserved{};
  std::array<std::byte, 16> nonce{};
  PublicKey public_key{};  ///< Zeros where this end does not encrypt.
  Digest tail{};           ///< A dialer's job as a hash; a listener's proof.

  static void fields(auto& wire, auto& self) {
    wire(self.magic, self.protocol, self.purpose, self.rank, self.encryption, self.has_aes,
         self.reserved, self.nonce, self.public_key, self.tail);
  }
};
static_assert(sizeof(HelloFields) == kHelloBytes);

constexpr std::string_view kWrongProof =
    "a wrong proof: the other side has another secret; RONDE_SECRET_FILE must hold the same one on "
    "all hosts";

Status refuse(std::string_view why) { return {Code::kInvalidArgument, std::string(why)}; }

}  // namespace

Result<Keys> Keys::derive(const Secret& secret) {
  Keys keys;
  RONDE_ASSIGN_OR_RETURN(keys.dialer, secret.derive("ronde 2 dialer proof"));
  RONDE_ASSIGN_OR_RETURN(keys.listener, secret.derive("ronde 2 listener proof"));
  RONDE_ASSIGN_OR_RETURN(keys.session, secret.derive("ronde 2 session"));
  return keys;
}

Digest hash_of_context(std::string_view context) { return digest(as_bytes(context)); }

// The caller owns the party.
Handshake::Handshake(const Party& party, Role role, int expected_rank)
    : party_(std::shared_ptr<void>(), &party), role_(role), expected_rank_(expected_rank) {}

Handshake::Handshake(std::shared_ptr<const Party> party, int expected_rank)
    : party_(std::move(party)), role_(Role::kDialer), expected_rank_(expected_rank) {}

Handshake::Handshake(PartyLookup lookup)
    : lookup_(std::move(lookup)), role_(Role::kListener), expected_rank_(-1) {}

Handshake::Hello Handshake::make_hello(const Digest& tail) const {
  const auto bytes =
      encode_wire(HelloFields{.purpose = party_->purpose,
                              .rank = static_cast<std::uint32_t>(party_->rank),
                              .encryption = party_->encryption,
                              .has_aes = static_cast<std::uint8_t>(party_->has_aes ? 1 : 0),
                              .nonce = nonce_,
                              .public_key = exchange_ ? exchange_->public_key() : PublicKey{},
                              .tail = tail});
  Hello hello{};
  std::copy(bytes.begin(), bytes.end(), hello.begin());
  return hello;
}

Status Handshake::start() {
  RONDE_RETURN_IF_ERROR(random_bytes(nonce_));
  if (role_ == Role::kListener) return {};
  RONDE_RETURN_IF_ERROR(draw_key());
  dialer_hello_ = make_hello(hash_of_context(party_->context));
  output_ += as_text(dialer_hello_);
  return {};
}

Digest Handshake::listener_proof() const {
  std::string message(as_text(dialer_hello_));
  message += as_text(std::span(listener_hello_).first(kTailAt));
  return proof(party_->keys.listener, as_bytes(message));
}

Digest Handshake::dialer_proof() const {
  std::string message(as_text(dialer_hello_));
  message += as_text(listener_hello_);
  return proof(party_->keys.dialer, as_bytes(message));
}

void Handshake::expect(Step step, std::size_t bytes) noexcept {
  step_ = step;
  wants_ = bytes;
}

Status Handshake::consume(std::span<const std::byte> bytes) {
  if (bytes.size() != wants_) return refuse("a wrong number of bytes");
  switch (step_) {
    case Step::kHello:
      return on_hello(bytes);
    case Step::kProof:
      return on_proof(bytes);
    case Step::kLength:
      return on_length(bytes);
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
  if (lookup_) RONDE_RETURN_IF_ERROR(find_party(theirs.purpose, theirs.tail));
  if (theirs.purpose != party_->purpose) return refuse("another purpose");
  peer_rank_ = static_cast<int>(theirs.rank);
  if (theirs.rank >= static_cast<std::uint32_t>(party_->size) || peer_rank_ == party_->rank) {
    return refuse("an impossible rank");
  }
  if (expected_rank_ >= 0 && peer_rank_ != expected_rank_) return refuse("an unexpected rank");
  if (theirs.encryption > Encryption::kRequired) return refuse("an unknown mode of encryption");
  peer_encryption_ = theirs.encryption;
  return {};
}

Status Handshake::find_party(Purpose purpose, const Digest& context) {
  party_ = lookup_(purpose, context);
  return party_ != nullptr ? Status() : refuse("another job or group");
}

Status Handshake::on_hello(std::span<const std::byte> bytes) {
  Hello& theirs = role_ == Role::kDialer ? listener_hello_ : dialer_hello_;
  std::copy(bytes.begin(), bytes.end(), theirs.begin());
  RONDE_RETURN_IF_ERROR(check_hello(theirs));
  const auto tail = std::span<const std::byte>(theirs).subspan(kTailAt);
  if (role_ == Role::kDialer) {
    if (!equal(tail, listener_proof())) return refuse(kWrongProof);
    output_ += as_text(dialer_proof());
    RONDE_RETURN_IF_ERROR(agree_on_keys());
    RONDE_RETURN_IF_ERROR(put_introduction());
    expect(Step::kLength, opener_ ? kHeadBytes : kLengthBytes);
    return {};
  }
  if (!equal(tail, hash_of_context(party_->context))) return refuse("another job");
  RONDE_RETURN_IF_ERROR(draw_key());
  listener_hello_ = make_hello({});
  listener_hello_ = make_hello(listener_proof());
  output_ += as_text(listener_hello_);
  expect(Step::kProof, sizeof(Digest));
  return {};
}

Status Handshake::on_proof(std::span<const std::byte> bytes) {
  if (!equal(bytes, dialer_proof())) return refuse(kWrongProof);
  RONDE_RETURN_IF_ERROR(agree_on_keys());
  expect(Step::kLength, opener_ ? kHeadBytes : kLengthBytes);
  return {};
}

/// A private key costs time. So a listener draws one only for a hello of this job.
Status Handshake::draw_key() {
  if (party_->encryption == Encryption::kOff) return {};
  RONDE_ASSIGN_OR_RETURN(KeyExchange made, KeyExchange::make());
  exchange_.emplace(std::move(made));
  return {};
}

/// After the proofs: both hellos are authentic, with their keys and modes.
Status Handshake::agree_on_keys() {
  if (!exchange_ || peer_encryption_ == Encryption::kOff) return {};
  RONDE_ASSIGN_OR_RETURN(const auto dialer, decode_wire<HelloFields>(dialer_hello_, "hello"));
  RONDE_ASSIGN_OR_RETURN(const auto listener, decode_wire<HelloFields>(listener_hello_, "hello"));
  const bool dials = role_ == Role::kDialer;
  RONDE_ASSIGN_OR_RETURN(const Secret shared,
                         exchange_->agree((dials ? listener : dialer).public_key));
  exchange_.reset();
  std::string hellos(as_text(dialer_hello_));
  hellos += as_text(listener_hello_);
  std::string nonces(as_text(dialer.nonce));
  nonces += as_text(listener.nonce);
  RONDE_ASSIGN_OR_RETURN(
      const ConnectionKeys keys,
      derive_keys({.shared = shared,
                   .job = party_->keys.session,
                   .salt = as_bytes(nonces),
                   .hellos = as_bytes(hellos),
                   .cipher = choose_cipher(dialer.has_aes != 0, listener.has_aes != 0)}));
  sealer_.emplace(keys.cipher, dials ? keys.from_dialer : keys.from_listener);
  opener_.emplace(keys.cipher, dials ? keys.from_listener : keys.from_dialer);
  return {};
}

Result<std::size_t> Handshake::length_of_introduction(std::span<const std::byte> bytes) {
  if (!opener_) {
    RONDE_ASSIGN_OR_RETURN(const auto length, decode_wire<std::uint32_t>(bytes, "length"));
    return length;
  }
  RONDE_ASSIGN_OR_RETURN(const RecordHead head, opener_->open_head(bytes));
  return head.payload_bytes;
}

Status Handshake::on_length(std::span<const std::byte> bytes) {
  RONDE_ASSIGN_OR_RETURN(const std::size_t length, length_of_introduction(bytes));
  if (length == 0 || length > kMaxIntroductionBytes) return refuse("an oversized introduction");
  expect(Step::kIntroduction, opener_ ? body_bytes(length) : length);
  return {};
}

Result<std::vector<std::byte>> Handshake::open_introduction(std::span<const std::byte> bytes) {
  if (!opener_) return std::vector<std::byte>(bytes.begin(), bytes.end());
  std::vector<std::byte> opened(bytes.size() - kTagBytes);
  const iovec piece{opened.data(), opened.size()};
  RONDE_RETURN_IF_ERROR(opener_->open_body(bytes, {&piece, 1}));
  return opened;
}

Status Handshake::on_introduction(std::span<const std::byte> bytes) {
  RONDE_ASSIGN_OR_RETURN(const auto opened, open_introduction(bytes));
  RONDE_ASSIGN_OR_RETURN(peer_, decode_wire<Introduction>(opened, "introduction"));
  if (role_ == Role::kListener) RONDE_RETURN_IF_ERROR(put_introduction());
  expect(Step::kDone, 0);
  RONDE_RETURN_IF_ERROR(compare_versions());
  return compare_encryption();
}

Status Handshake::put_introduction() {
  const auto text = encode_wire<std::string>(party_->self);
  if (!sealer_) {
    output_ += encode_wire<std::string>(text);
    return {};
  }
  std::vector<std::byte> record(record_bytes(text.size()));
  const iovec piece{const_cast<char*>(text.data()), text.size()};
  RONDE_RETURN_IF_ERROR(sealer_->seal(RecordKind::kData, {&piece, 1}, record.data()));
  output_ += as_text(record);
  return {};
}

std::unique_ptr<SealedIo> Handshake::take_sealed() {
  if (!sealer_) return nullptr;
  auto sealed = std::make_unique<SealedIo>(std::move(*sealer_), std::move(*opener_));
  sealer_.reset();
  opener_.reset();
  std::string mine = fmt::format("rank {} on {}", party_->rank, party_->self.host_name);
  std::string theirs = fmt::format("rank {} on {}", peer_rank_, peer_.host_name);
  if (peer_rank_ < party_->rank) std::swap(mine, theirs);
  sealed->set_ends(fmt::format("{} and {}", mine, theirs));
  return sealed;
}

Status Handshake::compare_versions() const {
  if (peer_.version == party_->self.version) return {};
  const auto line = [](int rank, const Introduction& intro) {
    return fmt::format("rank {} on {} runs Ronde {}", rank, intro.host_name, intro.version);
  };
  std::string mine = line(party_->rank, party_->self);
  std::string theirs = line(peer_rank_, peer_);
  if (peer_rank_ < party_->rank) std::swap(mine, theirs);
  return {Code::kVersionMismatch,
          fmt::format("{}, but {}; install the same version on all hosts", mine, theirs)};
}

Status Handshake::compare_encryption() const {
  if (peer_encryption_ == party_->encryption) return {};
  const auto line = [](int rank, const Introduction& intro, Encryption mode) {
    return fmt::format("rank {} on {} has RONDE_ENCRYPTION={}", rank, intro.host_name,
                       to_string(mode));
  };
  std::string mine = line(party_->rank, party_->self, party_->encryption);
  std::string theirs = line(peer_rank_, peer_, peer_encryption_);
  if (peer_rank_ < party_->rank) std::swap(mine, theirs);
  return {Code::kMismatch,
          fmt::format("{}, but {}; set the same value (off, on or required) on all ranks", mine,
                      theirs)};
}

}  // namespace ronde::net
