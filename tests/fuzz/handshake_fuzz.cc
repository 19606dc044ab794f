// An unauthenticated peer, or a faulty rank, at either end of the handshake. A first byte of 1
// makes it a peer that knows the secret, so that what follows the proof is reached too. Both ends
// encrypt if it has bit 4.
#include <array>
#include <cstdlib>
#include <memory>

#include "backends/net/connection/handshake.h"
#include "core/base/bytes.h"
#include "tests/fuzz/input.h"

namespace {

using ronde::net::Handshake;

ronde::net::Identity identity_of(int rank, bool encrypts) {
  ronde::net::Identity identity;
  identity.rank = rank;
  if (encrypts) identity.encryption = ronde::net::Encryption::kOn;
  identity.size = 4;
  identity.context = "job";
  identity.self = {"1", "host", "identity", "127.0.0.1:1", 17};
  identity.keys = ronde::net::Keys::derive(ronde::net::Secret()).value();
  return identity;
}

Handshake handshake_of(const ronde::net::Identity& identity, bool listens, int peer) {
  const std::shared_ptr<const ronde::net::Identity> self(std::shared_ptr<void>(), &identity);
  if (!listens) return {self, peer};
  return Handshake([self](ronde::net::Purpose, const ronde::net::Digest&) { return self; });
}

/// Feeds what is left of the input; an unauthenticated peer must never get to the end.
void feed(Handshake& handshake, ronde::FuzzInput& input, bool unauthenticated) {
  while (handshake.wants() != 0) {
    const auto bytes = input.bytes(handshake.wants());
    if (bytes.size() < handshake.wants() || !handshake.consume(bytes).ok()) return;
    (void)handshake.take_output();
  }
  if (unauthenticated) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array<ronde::net::Identity, 2> all_here{identity_of(0, false),
                                                            identity_of(0, true)};
  static const std::array<ronde::net::Identity, 2> all_there{identity_of(1, false),
                                                             identity_of(1, true)};
  ronde::FuzzInput input(data, size);
  const std::uint8_t choice = input.byte();
  const std::size_t encrypts = (choice & 4) != 0 ? 1 : 0;
  const ronde::net::Identity& here = all_here[encrypts];
  const ronde::net::Identity& there = all_there[encrypts];
  const bool listens = (choice & 2) != 0;
  Handshake ours = handshake_of(here, listens, 1);
  if (!ours.start().ok()) return 0;
  if ((choice & 1) == 0) {
    (void)ours.take_output();
    feed(ours, input, true);
    return 0;
  }
  Handshake theirs = handshake_of(there, !listens, 0);
  if (!theirs.start().ok()) return 0;
  std::string to_them = ours.take_output();
  std::string to_us = theirs.take_output();
  for (int turn = 0; turn < 2; ++turn) {  // honest up to the proofs
    while (theirs.wants() != 0 && to_them.size() >= theirs.wants()) {
      const std::string part = to_them.substr(0, theirs.wants());
      to_them.erase(0, part.size());
      if (!theirs.consume(ronde::as_bytes(part)).ok()) return 0;
    }
    to_us += theirs.take_output();
    while (ours.wants() == ronde::net::kHelloBytes && to_us.size() >= ours.wants()) {
      const std::string part = to_us.substr(0, ours.wants());
      to_us.erase(0, part.size());
      if (!ours.consume(ronde::as_bytes(part)).ok()) return 0;
    }
    if (ours.wants() > 0 && to_us.size() >= ours.wants()) {
      const std::string part = to_us.substr(0, ours.wants());
      to_us.erase(0, part.size());
      if (!ours.consume(ronde::as_bytes(part)).ok()) return 0;
    }
    to_them += ours.take_output();
  }
  feed(ours, input, false);
  return 0;
}
