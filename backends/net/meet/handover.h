// Rank 0's way to give the others a secret that no launcher has given them: in a MUNGE credential
// that it sends to all that connect, else in a file (mode 0600) in a folder that all hosts share.
// Processes of this user alone can read either.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "backends/net/connection/secret.h"
#include "core/base/status.h"

namespace ronde::net {

/// MUNGE, the authentication service of Slurm clusters: libmunge, loaded when it is there, and the
/// munged of each host. It makes and reads credentials that processes of this user alone can read,
/// on all hosts with the same MUNGE key. Threads: any.
class Munge {
 public:
  /// `library` is what the dynamic linker looks for.
  explicit Munge(std::string library = "libmunge.so.2") : library_(std::move(library)) {}

  /// A text that hides and signs `payload` for as long as `lifetime`, an hour at most. Blocks
  /// (munged). Errors: kUnavailable naming this host and the reason.
  [[nodiscard]] Result<std::string> encode(std::string_view payload,
                                           std::chrono::seconds lifetime) const;

  /// The payload of a credential that a process of this user has made. A credential may be read
  /// more than once. Blocks (munged). Errors: kUnavailable naming this host, the reason, and both
  /// clocks where they differ too much.
  [[nodiscard]] Result<std::string> decode(const std::string& credential) const;

 private:
  std::string library_;
};

/// The facts that all ranks of the job know.
struct HandoverArgs {
  std::string job;                   ///< The job's name.
  std::vector<std::string> folders;  ///< Tried in turn; all that exist are used.
  std::chrono::milliseconds start_timeout{};
  Munge munge = Munge();
};

/// Rank 0's side. The destructor removes the files.
class SecretOffer {
 public:
  /// Blocks (munged, file system). Errors: kUnavailable saying why neither way is open.
  static Result<SecretOffer> make(const HandoverArgs& args, const Secret& secret);

  ~SecretOffer();
  SecretOffer(SecretOffer&& other) noexcept
      : greeting_(std::move(other.greeting_)), files_(std::exchange(other.files_, {})) {}
  SecretOffer(const SecretOffer&) = delete;
  SecretOffer& operator=(const SecretOffer&) = delete;
  SecretOffer& operator=(SecretOffer&&) = delete;

  /// The bytes to send to each that connects, before anything else.
  [[nodiscard]] const std::string& greeting() const noexcept { return greeting_; }

 private:
  SecretOffer() = default;
  Status write_files(const HandoverArgs& args, const Secret& secret);

  std::string greeting_;
  std::vector<std::string> files_;
};

/// The greeting over a Unix socket, with the secret or without.
std::string make_greeting(const std::optional<Secret>& handed_over);

/// The secret for a connection over a Unix socket: the known one, else that of the greeting.
/// Errors: kUnavailable where another program greets; kInvalidArgument where nobody has a secret to
/// hand over, but the other side has one.
Result<Secret> secret_on_host(std::string_view greeting, const std::optional<Secret>& known);

/// Gets rank 0's secret where its greeting says. Blocks (munged, file system).
/// Errors: kUnavailable with the reason; worth another try.
Result<Secret> secret_of_rank_0(std::string_view greeting, const HandoverArgs& args);

/// The job's file in `folder`.
std::string handover_file(const std::string& folder, std::string_view job);

}  // namespace ronde::net
