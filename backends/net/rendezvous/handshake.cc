#include "backends/net/rendezvous/handshake.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

constexpr std::array<char, 8> kMagic = {'R', 'O', 'N', 'D', 'E', '\r', '\n', '\x1a'};
constexpr std::uint16_t kProtocol = 1;
constexpr std::size_t kTailAt = kHelloBytes - sizeof(Digest);

/// The first bytes of a connection. The protocol comes before all that may change with it.
struct HelloFields {
  std::array<char, 8> magic = kMagic;
  std::uint16_t protocol = kProtocol;
  Purpose purpose = Purpose::kHost;
  std::uint32_t rank = 0;
  std::array<std::byte, 16> nonce{};
  Digest tail{};  ///< A dialer's job as a hash; a listener's proof.

  static void fields(auto& wire, auto& self) {
    wire(self.magic, self.protocol, self.purpose, self.rank, self.nonce, self.tail);
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
  RONDE_ASSIGN_OR_RETURN(keys.dialer, secret.derive("ronde 1 dialer proof"));
  RONDE_ASSIGN_OR_RETURN(keys.listener, secret.derive("ronde 1 listener proof"));
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
  const auto bytes = encode_wire(HelloFields{.purpose = party_->purpose,
                                             .rank = static_cast<std::uint32_t>(party_->rank),
                                             .nonce = nonce_,
                                             .tail = tail});
  Hello hello{};
  std::copy(bytes.begin(), bytes.end(), hello.begin());
  return hello;
}

Status Handshake::start() {
  RONDE_RETURN_IF_ERROR(random_bytes(nonce_));
  if (role_ == Role::kListener) return {};
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
    put_introduction();
    expect(Step::kLength, 4);
    return {};
  }
  if (!equal(tail, hash_of_context(party_->context))) return refuse("another job");
  listener_hello_ = make_hello({});
  listener_hello_ = make_hello(listener_proof());
  output_ += as_text(listener_hello_);
  expect(Step::kProof, sizeof(Digest));
  return {};
}

Status Handshake::on_proof(std::span<const std::byte> bytes) {
  if (!equal(bytes, dialer_proof())) return refuse(kWrongProof);
  expect(Step::kLength, 4);
  return {};
}

Status Handshake::on_length(std::span<const std::byte> bytes) {
  RONDE_ASSIGN_OR_RETURN(const auto length, decode_wire<std::uint32_t>(bytes, "length"));
  if (length == 0 || length > kMaxIntroductionBytes) return refuse("an oversized introduction");
  expect(Step::kIntroduction, length);
  return {};
}

Status Handshake::on_introduction(std::span<const std::byte> bytes) {
  RONDE_ASSIGN_OR_RETURN(peer_, decode_wire<Introduction>(bytes, "introduction"));
  if (role_ == Role::kListener) put_introduction();
  expect(Step::kDone, 0);
  return compare_versions();
}

void Handshake::put_introduction() {
  output_ += encode_wire<std::string>(encode_wire<std::string>(party_->self));
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

}  // namespace ronde::net
