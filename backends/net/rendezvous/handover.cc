#include "backends/net/rendezvous/handover.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/log.h"
#include "core/base/os/interfaces.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

constexpr std::size_t kMaxGreetingBytes = 4096;
constexpr std::chrono::seconds kGrace{60};  // a credential outlives the time to start

/// The way to the secret. An empty credential: the file.
struct Greeting {
  std::string credential;

  static void fields(auto& wire, auto& self) { wire(self.credential); }
};

/// The contents of the credential.
struct Payload {
  std::string job;
  std::array<std::byte, Secret::kBytes> secret{};

  static void fields(auto& wire, auto& self) { wire(self.job, self.secret); }
};

std::string framed(const Greeting& greeting) {
  return encode_wire<std::string>(std::string_view(encode_wire<std::string>(greeting)));
}

Result<std::string> make_credential(const HandoverArgs& args, const Secret& secret) {
  Payload payload{.job = args.job, .secret = {}};
  std::ranges::copy(secret.bytes(), payload.secret.begin());
  const auto lifetime = std::chrono::ceil<std::chrono::seconds>(args.start_timeout) + kGrace;
  return args.credentials->encode(encode_wire<std::string>(payload), lifetime);
}

Result<Secret> open_credential(const HandoverArgs& args, const std::string& credential) {
  RONDE_ASSIGN_OR_RETURN(const std::string bytes, args.credentials->decode(credential));
  const auto payload = decode_wire<Payload>(as_bytes(bytes), "munge credential");
  if (!payload.ok() || payload->job != args.job) {
    return Status(Code::kUnavailable, "another job of this user listens there");
  }
  return Secret(payload->secret);
}

std::string reason() { return std::generic_category().message(errno); }

/// Writes `text` to a new file of mode 0600 that takes the name `path` when it is complete.
Status write_private(const std::string& path, std::string_view text) {
  const std::string made = fmt::format("{}.{}", path, ::getpid());
  ::unlink(made.c_str());
  const FileDescriptor fd(
      ::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return {Code::kUnavailable, fmt::format("cannot write {}: {}", path, reason())};
  struct stat info {};
  Status status;
  if (::fstat(fd.get(), &info) != 0 || (info.st_mode & 077) != 0) {
    status = {Code::kUnavailable,
              fmt::format("the file system of {} gives files of mode 0600 the mode {:04o}", path,
                          info.st_mode & 07777)};
  } else if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
             ::fsync(fd.get()) != 0 || ::rename(made.c_str(), path.c_str()) != 0) {
    status = {Code::kUnavailable, fmt::format("cannot write {}: {}", path, reason())};
  }
  if (!status.ok()) ::unlink(made.c_str());
  return status;
}

/// Opening a folder has NFS ask the server what is in it now.
void refresh(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(folder.c_str()), ::closedir);
}

Result<Secret> find_file(const HandoverArgs& args) {
  std::vector<std::string> places;
  for (const std::string& folder : args.folders) {
    refresh(folder);
    places.push_back(handover_file(folder, args.job));
    if (::access(places.back().c_str(), F_OK) != 0) continue;
    const auto secret = read_secret_file(places.back(), places.back());
    if (secret.ok()) return secret;
    return Status(Code::kUnavailable, secret.status().message());
  }
  return Status(Code::kUnavailable,
                fmt::format("rank 0 has no munge and gives its secret in a file, but {} sees none "
                            "at {}: share one of these folders, or set RONDE_SECRET_FILE",
                            host_name(), fmt::join(places, ", ")));
}

}  // namespace

std::string handover_file(const std::string& folder, std::string_view job) {
  std::string name(job);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '_');
  return fmt::format("{}/.ronde-secret-{}", folder, name);
}

Status SecretOffer::write_files(const HandoverArgs& args, const Secret& secret) {
  Status last(Code::kUnavailable, "neither HOME nor a working folder is set");
  for (const std::string& folder : args.folders) {
    const std::string path = handover_file(folder, args.job);
    const Status written = write_private(path, hex(secret.bytes()) + "\n");
    if (written.ok()) {
      files_.push_back(path);
    } else {
      last = written;
    }
  }
  return files_.empty() ? last : Status();
}

Result<SecretOffer> SecretOffer::make(const HandoverArgs& args, const Secret& secret) {
  SecretOffer offer;
  auto credential = make_credential(args, secret);
  if (credential.ok()) {
    offer.greeting_ = framed({std::move(*credential)});
    return offer;
  }
  log(LogLevel::kDebug, "the job's secret goes by a file: {}", credential.status().message());
  if (const Status written = offer.write_files(args, secret); !written.ok()) {
    return Status(
        Code::kUnavailable,
        fmt::format("rank 0 cannot give the others a secret: {}; {}; start munged, or set "
                    "RONDE_SECRET_FILE",
                    credential.status().message(), written.message()));
  }
  offer.greeting_ = framed({});
  return offer;
}

SecretOffer::~SecretOffer() {
  for (const std::string& file : files_) ::unlink(file.c_str());
}

Result<std::string> receive_greeting(Stream& stream, const WaitLimit& limit) {
  const auto bytes = recv_message(stream, kMaxGreetingBytes, limit);
  if (!bytes.ok() && bytes.status().code() != Code::kInvalidArgument) return bytes.status();
  const auto greeting =
      bytes.ok() ? decode_wire<Greeting>(as_bytes(*bytes), "greeting") : bytes.status();
  if (!greeting.ok()) {
    return Status(Code::kUnavailable, "another program listens there");
  }
  return greeting->credential;
}

Result<Secret> get_secret(const std::string& credential, const HandoverArgs& args) {
  return credential.empty() ? find_file(args) : open_credential(args, credential);
}

}  // namespace ronde::net
