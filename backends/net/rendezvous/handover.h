// Rank 0's way to give the others a secret that no launcher has given them: in a MUNGE credential
// that it sends to whoever connects, else in a file (mode 0600) in a folder that all hosts share.
// Processes of this user alone can read either.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "backends/net/link/stream.h"
#include "backends/net/rendezvous/munge.h"
#include "backends/net/rendezvous/secret.h"
#include "backends/net/rendezvous/socket.h"
#include "core/base/status.h"

namespace ronde::net {

/// The facts that all ranks of the job know.
struct HandoverArgs {
  std::string job;                   ///< The job's name.
  std::vector<std::string> folders;  ///< Tried in turn; all that exist are used.
  std::chrono::milliseconds start_timeout{};
  const Credentials* credentials = nullptr;
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

/// Reads rank 0's greeting; returns the credential, empty where the secret is in a file. Blocks.
/// Errors: kUnavailable or kTimeout with the reason, also for whatever another program sends; worth
/// another try.
Result<std::string> receive_greeting(Stream& stream, const WaitLimit& limit);

/// Gets the secret where the greeting says. Blocks (munged, file system).
/// Errors: kUnavailable with the reason; worth another try.
Result<Secret> get_secret(const std::string& credential, const HandoverArgs& args);

/// The job's file in `folder`.
std::string handover_file(const std::string& folder, std::string_view job);

}  // namespace ronde::net
