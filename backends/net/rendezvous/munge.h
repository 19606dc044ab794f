// Credentials of MUNGE, the authentication service of Slurm clusters: libmunge, loaded when it is
// there, and the munged of each host.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace ronde::net {

/// Makes and reads credentials that processes of this user alone can read, on all hosts with the
/// same MUNGE key. Threads: any.
class Credentials {
 public:
  virtual ~Credentials() = default;

  /// A text that hides and signs `payload` for as long as `lifetime`, an hour at most. Blocks
  /// (munged). Errors: kUnavailable naming this host and the reason.
  [[nodiscard]] virtual Result<std::string> encode(std::string_view payload,
                                                   std::chrono::seconds lifetime) const = 0;

  /// The payload of a credential that a process of this user has made. A credential may be read
  /// more than once. Blocks (munged). Errors: kUnavailable naming this host, the reason, and both
  /// clocks where they differ too much.
  [[nodiscard]] virtual Result<std::string> decode(const std::string& credential) const = 0;
};

/// Those of MUNGE. `library` is what the dynamic linker looks for.
class Munge : public Credentials {
 public:
  explicit Munge(std::string library = "libmunge.so.2") : library_(std::move(library)) {}

  [[nodiscard]] Result<std::string> encode(std::string_view payload,
                                           std::chrono::seconds lifetime) const override;
  [[nodiscard]] Result<std::string> decode(const std::string& credential) const override;

 private:
  const std::string library_;
};

}  // namespace ronde::net
