// The bytes of a sealed connection, from somebody on the path or from a faulty rank. An odd first
// byte: from a rank that has the keys, so that what is authentic and yet wrong is reached too.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "backends/net/link/sealed_io.h"
#include "core/base/os/file_descriptor.h"
#include "tests/fuzz/input.h"

namespace {

using ronde::net::Cipher;
using ronde::net::Opener;
using ronde::net::RecordKind;
using ronde::net::Sealer;

constexpr std::size_t kMostReceived = std::size_t{1} << 16;

struct Received {
  std::vector<std::byte> bytes;
  bool refused = false;
};

/// Receives all that has been sent to `fd`, in pieces of `step` bytes.
Received receive_all(ronde::net::SealedIo& io, int fd, std::size_t step) {
  Received all;
  std::vector<std::byte> piece(step);
  while (all.bytes.size() < kMostReceived) {
    const std::array<iovec, 2> room{iovec{piece.data(), step / 2},
                                    iovec{piece.data() + step / 2, step - step / 2}};
    const auto got = io.receive(fd, room);
    all.refused = !got.ok();
    if (!got.ok() || *got == 0) break;
    all.bytes.insert(all.bytes.end(), piece.begin(),
                     piece.begin() + static_cast<std::ptrdiff_t>(*got));
  }
  return all;
}

/// Records that a rank seals: kinds, contents and a number of bytes from the input.
std::vector<std::byte> sealed(ronde::FuzzInput& input, Cipher cipher, const ronde::net::Secret& key,
                              std::vector<std::byte>& contents) {
  Sealer sealer(cipher, key);
  std::vector<std::byte> wire;
  bool ended = false;
  while (!input.empty()) {
    const auto kind = static_cast<RecordKind>(input.byte() % 5);
    const auto piece = input.piece();
    const iovec part{const_cast<std::byte*>(piece.data()), piece.size()};
    const std::size_t at = wire.size();
    wire.resize(at + ronde::net::record_bytes(piece.size()));
    if (!sealer.seal(kind, {&part, 1}, wire.data() + at).ok()) std::abort();
    ended = ended || kind != RecordKind::kData || piece.empty();
    if (!ended) contents.insert(contents.end(), piece.begin(), piece.end());
  }
  return wire;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ronde::net::Secret key;
  ronde::FuzzInput input(data, size);
  const std::uint8_t choice = input.byte();
  const std::size_t step = 1 + std::size_t{input.byte()} * 16;
  const Cipher cipher = (choice & 2) != 0 ? Cipher::kAes256Gcm : Cipher::kChaCha20Poly1305;
  std::vector<std::byte> contents;
  std::vector<std::byte> wire;
  if ((choice & 1) != 0) {
    wire = sealed(input, cipher, key, contents);
  } else {
    const auto rest = input.rest();
    wire.assign(rest.begin(), rest.end());
  }
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) != 0) return 0;
  const ronde::FileDescriptor here(fds[0]);
  const ronde::FileDescriptor there(fds[1]);
  const ssize_t sent = ::send(there.get(), wire.data(), wire.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(wire.size())) return 0;
  ronde::net::SealedIo io(Sealer(cipher, key), Opener(cipher, key));
  const Received got = receive_all(io, here.get(), step);
  // Exactly what a rank sealed before anything else than data; from others nothing.
  if (got.bytes != contents) std::abort();
  if ((choice & 1) == 0 && wire.size() >= ronde::net::kHeadBytes && !got.refused) std::abort();
  return 0;
}
