// Two ranks prove to each other that they belong to one job, before anything else is read.
//
//   dialer                                  listener
//                                   <-      (greeting, see handover.h)
//   hello: fresh nonce              ->
//                                   <-      hello: fresh nonce, proof over both hellos
//   proof over both hellos          ->      (zeros where the listener's proof is wrong)
//   introduction                    ->
//                                   <-      introduction
//
// A proof is an HMAC-SHA256 under a key that HKDF makes of the job's secret for this direction. The
// hellos name protocol version, purpose, rank and the job (as a hash), so a proof is good for one
// connection only. The introduction carries the Ronde version.
//
// Each hello also names the rank's mode of encryption, and if it wants checksums. If both ends
// encrypt, TLS follows the proofs (see tls.h), under a key made of the job's secret and both
// hellos. It carries the introductions, and all that the connection carries later.
//
// A listener that hands out the secret sends a greeting first. The dialer makes its keys of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/net/connection/secret.h"
#include "backends/net/connection/tls.h"
#include "core/base/status.h"

namespace ronde::net {

/// The purpose of a connection; both ends must agree.
enum class Purpose : std::uint16_t { kHost = 1, kRendezvous = 2, kLink = 3, kData = 4 };

/// The facts that a rank sends once it is authenticated.
struct Introduction {
  std::string version;
  std::string host_name;
  std::string host_identity;  ///< Equal for ranks that can share memory and Unix sockets.
  std::string address;        ///< Where it listens for links; empty where it does not.
  int pid = 0;
  /// Where it listens for data on further interfaces, in the order of RONDE_NETWORK_INTERFACE.
  std::vector<std::string> further_addresses = {};

  [[nodiscard]] FailedRank of(int rank) const { return {rank, host_name, pid}; }
  static void fields(auto& wire, auto& self) {
    wire(self.version, self.host_name, self.host_identity, self.address, self.pid,
         self.further_addresses);
  }
};

/// "rank 3 (pid 17 on node1)".
std::string name_of(const FailedRank& who);

/// Keys of one job.
struct Keys {
  Secret dialer;
  Secret listener;
  Secret session;  ///< Goes into the key of each encrypted connection.
  /// Errors: as Secret::derive.
  static Result<Keys> derive(const Secret& secret);
};

/// A process in handshakes: its purpose and rank there, and the keys that prove them.
struct Identity {
  Purpose purpose = Purpose::kHost;
  int rank = 0;
  int size = 1;
  std::string context;  ///< Job id, and for data also the group: only its hash is sent.
  Keys keys;
  Introduction self;
  Encryption encryption = Encryption::kOff;  ///< Off inside a host.
  bool has_aes = cpu_has_aes();
  bool checksums = false;  ///< Wanted for what plain connections carry; see Stream::has_checksums.
};

/// Finds the identity of this process that a dialer asks for, by purpose and hash of the context;
/// null where there is none.
using IdentityLookup =
    std::function<std::shared_ptr<const Identity>(Purpose purpose, const Digest& context)>;

/// Makes the identity of a dialer from the listener's greeting. It may block (munged, file system).
using GreetingReader =
    std::function<Result<std::shared_ptr<const Identity>>(std::string_view greeting)>;

/// The hash of a context, as hellos carry it.
Digest hash_of_context(std::string_view context);

inline constexpr std::size_t kHelloBytes = 72;
inline constexpr std::size_t kMaxIntroductionBytes = 4096;
inline constexpr std::size_t kMaxGreetingBytes = 4096;

/// True for the errors of an authenticated peer that another try does not mend.
constexpr bool disagrees(Code code) noexcept {
  return code == Code::kVersionMismatch || code == Code::kMismatch;
}

/// The state of one handshake: bytes in, bytes out; no sockets, no clock.
class Handshake {
 public:
  /// A dialer.
  Handshake(std::shared_ptr<const Identity> identity, int expected_rank);
  /// A dialer that the listener greets.
  Handshake(GreetingReader reader, int expected_rank);
  /// A listener. It acts for the identity that the dialer's hello names.
  explicit Handshake(IdentityLookup lookup);

  /// Draws the nonce; a dialer's first bytes are then in take_output(). Errors: kUnavailable.
  Status start();

  /// The number of bytes it wants next; 0 when done.
  [[nodiscard]] std::size_t wants() const noexcept { return wants_; }
  /// True while a rank of this job, which has the proof of this process, owes its own.
  [[nodiscard]] bool awaits_proof() const noexcept { return !dials_ && step_ == Step::kProof; }

  /// True once a dialer has a listener's greeting.
  [[nodiscard]] bool greeted() const noexcept { return greeted_; }

  /// Takes exactly wants() bytes. Errors: kInvalidArgument; kVersionMismatch or kMismatch naming
  /// ranks, hosts and versions or modes of encryption; kUnavailable where no rank greets; those of
  /// a GreetingReader. Send take_output() before you close the connection: it is empty where the
  /// peer gets no answer.
  Status consume(std::span<const std::byte> bytes);

  /// Bytes to send now.
  [[nodiscard]] std::string take_output() { return std::exchange(output_, {}); }

  /// The peer; once wants() is 0, or on a version mismatch.
  [[nodiscard]] int peer_rank() const noexcept { return peer_rank_; }
  [[nodiscard]] const Introduction& peer() const noexcept { return peer_; }
  /// The identity that acts here; null while a listener has no hello.
  [[nodiscard]] const std::shared_ptr<const Identity>& identity() const noexcept {
    return identity_;
  }

  /// The encryption of the connection from here on, once wants() is 0; null where it is plain.
  std::unique_ptr<Tls> take_tls();
  /// True where both ends want checksums, once wants() is 0.
  [[nodiscard]] bool agreed_on_checksums() const noexcept {
    return identity_->checksums && peer_checksums_;
  }

 private:
  enum class Step : std::uint8_t {
    kGreetingHead,
    kGreeting,
    kHello,
    kProof,
    kRecordHead,  // of TLS
    kRecord,
    kHead,  // of a plain introduction
    kIntroduction,
    kDone,
  };
  using Hello = std::array<std::byte, kHelloBytes>;

  [[nodiscard]] Hello make_hello(const Digest& tail) const;
  [[nodiscard]] Digest dialer_proof() const;
  [[nodiscard]] Digest listener_proof() const;
  void expect(Step step, std::size_t bytes) noexcept;
  void begin_dialing();
  Status on_greeting(std::span<const std::byte> bytes);
  Status on_hello(std::span<const std::byte> bytes);
  Status check_hello(const Hello& hello);
  Status find_identity(Purpose purpose, const Digest& context);
  Status on_proof(std::span<const std::byte> bytes);
  Status on_head(std::span<const std::byte> bytes, Step body, std::size_t most,
                 const Status& otherwise);
  Status on_introduction(std::span<const std::byte> bytes);
  [[nodiscard]] std::pair<std::string, std::string> by_rank(auto line) const;
  [[nodiscard]] Status compare_versions() const;
  [[nodiscard]] Status compare_encryption() const;
  Status on_proved();
  Status begin_tls();
  Status on_record_head(std::span<const std::byte> bytes);
  Status on_record(std::span<const std::byte> bytes);
  Status put_introduction();

  std::shared_ptr<const Identity> identity_;
  const IdentityLookup lookup_;
  const GreetingReader read_greeting_;
  const bool dials_;
  const int expected_rank_;
  Step step_ = Step::kHello;
  std::size_t wants_ = kHelloBytes;
  std::array<std::byte, 16> nonce_{};
  Hello dialer_hello_{};
  Hello listener_hello_{};
  std::string output_;
  bool greeted_ = false;
  int peer_rank_ = -1;
  Introduction peer_;
  Encryption peer_encryption_ = Encryption::kOff;
  bool peer_checksums_ = false;
  std::unique_ptr<Tls> tls_;       // after the proofs, if both encrypt
  std::vector<std::byte> record_;  // that arrives
};

}  // namespace ronde::net
