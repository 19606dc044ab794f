#include "backends/net/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/net/wire.h"
#include "core/base/bytes.h"

namespace ronde::net {
namespace {

constexpr std::string_view kMagic = "RONDE\r\n\x1a";
constexpr std::uint16_t kProtocol = 1;

// Layout of a hello. A listener's proof takes the place of the dialer's job hash.
constexpr std::size_t kProtocolAt = 8;
constexpr std::size_t kPurposeAt = 10;
constexpr std::size_t kRankAt = 12;
constexpr std::size_t kNonceAt = 16;
constexpr std::size_t kTailAt = 32;
static_assert(kMagic.size() == kProtocolAt && kTailAt + sizeof(Digest) == kHelloBytes);

void put(std::span<std::byte> out, std::size_t at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    out[at + i] = static_cast<std::byte>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

std::uint32_t get(std::span<const std::byte> in, std::size_t at, std::size_t bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= std::to_integer<std::uint32_t>(in[at + i]) << (8 * i);
  return value;
}

Status refuse(std::string_view why) { return {Code::kInvalidArgument, std::string(why)}; }

std::string encode(const Introduction& intro) {
  return WireWriter()
      .text(intro.version)
      .text(intro.host_name)
      .text(intro.host_identity)
      .text(intro.address)
      .number(static_cast<std::uint32_t>(intro.pid))
      .take();
}

Result<Introduction> decode(std::string_view bytes) {
  WireReader reader(bytes);
  Introduction intro;
  intro.version = reader.text();
  intro.host_name = reader.text();
  intro.host_identity = reader.text();
  intro.address = reader.text();
  intro.pid = static_cast<int>(reader.number());
  if (!reader.finished()) return refuse("a malformed introduction");
  return intro;
}

}  // namespace

Result<Keys> Keys::derive(const Secret& secret) {
  Keys keys;
  RONDE_ASSIGN_OR_RETURN(keys.dialer, secret.derive("ronde 1 dialer proof"));
  RONDE_ASSIGN_OR_RETURN(keys.listener, secret.derive("ronde 1 listener proof"));
  return keys;
}

Handshake::Handshake(const Party& party, Role role, int expected_rank)
    : party_(party), role_(role), expected_rank_(expected_rank) {}

Handshake::Hello Handshake::make_hello() const {
  Hello hello{};
  std::memcpy(hello.data(), kMagic.data(), kMagic.size());
  put(hello, kProtocolAt, kProtocol, 2);
  put(hello, kPurposeAt, static_cast<std::uint16_t>(party_.purpose), 2);
  put(hello, kRankAt, static_cast<std::uint32_t>(party_.rank), 4);
  std::copy(nonce_.begin(), nonce_.end(), hello.begin() + kNonceAt);
  return hello;
}

Status Handshake::start() {
  RONDE_RETURN_IF_ERROR(random_bytes(nonce_));
  if (role_ == Role::kListener) return {};
  dialer_hello_ = make_hello();
  const Digest job = digest(as_bytes(party_.context));
  std::copy(job.begin(), job.end(), dialer_hello_.begin() + kTailAt);
  output_ += as_text(dialer_hello_);
  return {};
}

Digest Handshake::listener_proof() const {
  std::string message(as_text(dialer_hello_));
  message += as_text(std::span(listener_hello_).first(kTailAt));
  return proof(party_.keys.listener, as_bytes(message));
}

Digest Handshake::dialer_proof() const {
  std::string message(as_text(dialer_hello_));
  message += as_text(listener_hello_);
  return proof(party_.keys.dialer, as_bytes(message));
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
  if (std::memcmp(hello.data(), kMagic.data(), kMagic.size()) != 0) return refuse("no Ronde peer");
  if (get(hello, kProtocolAt, 2) != kProtocol) return refuse("another protocol");
  if (get(hello, kPurposeAt, 2) != static_cast<std::uint16_t>(party_.purpose)) {
    return refuse("another purpose");
  }
  const std::uint32_t rank = get(hello, kRankAt, 4);
  peer_rank_ = static_cast<int>(rank);
  if (rank >= static_cast<std::uint32_t>(party_.size) || peer_rank_ == party_.rank) {
    return refuse("an impossible rank");
  }
  if (expected_rank_ >= 0 && peer_rank_ != expected_rank_) return refuse("an unexpected rank");
  return {};
}

Status Handshake::on_hello(std::span<const std::byte> bytes) {
  Hello& theirs = role_ == Role::kDialer ? listener_hello_ : dialer_hello_;
  std::copy(bytes.begin(), bytes.end(), theirs.begin());
  RONDE_RETURN_IF_ERROR(check_hello(theirs));
  const auto tail = std::span<const std::byte>(theirs).subspan(kTailAt);
  if (role_ == Role::kDialer) {
    if (!equal(tail, listener_proof())) return refuse("a wrong proof: another secret or job");
    output_ += as_text(dialer_proof());
    put_introduction();
    expect(Step::kLength, 4);
    return {};
  }
  if (!equal(tail, digest(as_bytes(party_.context)))) return refuse("another job");
  listener_hello_ = make_hello();
  const Digest mine = listener_proof();
  std::copy(mine.begin(), mine.end(), listener_hello_.begin() + kTailAt);
  output_ += as_text(listener_hello_);
  expect(Step::kProof, sizeof(Digest));
  return {};
}

Status Handshake::on_proof(std::span<const std::byte> bytes) {
  if (!equal(bytes, dialer_proof())) return refuse("a wrong proof: another secret or job");
  expect(Step::kLength, 4);
  return {};
}

Status Handshake::on_length(std::span<const std::byte> bytes) {
  const std::size_t length = get(bytes, 0, 4);
  if (length == 0 || length > kMaxIntroductionBytes) return refuse("an oversized introduction");
  expect(Step::kIntroduction, length);
  return {};
}

Status Handshake::on_introduction(std::span<const std::byte> bytes) {
  RONDE_ASSIGN_OR_RETURN(peer_, decode(as_text(bytes)));
  if (role_ == Role::kListener) put_introduction();
  expect(Step::kDone, 0);
  return compare_versions();
}

void Handshake::put_introduction() { output_ += WireWriter().text(encode(party_.self)).take(); }

Status Handshake::compare_versions() const {
  if (peer_.version == party_.self.version) return {};
  const auto line = [](int rank, const Introduction& intro) {
    return fmt::format("rank {} on {} runs Ronde {}", rank, intro.host_name, intro.version);
  };
  std::string mine = line(party_.rank, party_.self);
  std::string theirs = line(peer_rank_, peer_);
  if (peer_rank_ < party_.rank) std::swap(mine, theirs);
  return {Code::kVersionMismatch,
          fmt::format("{}, but {}; all ranks must run the same version", mine, theirs)};
}

}  // namespace ronde::net
