// The declarations below are those of munge.h (MUNGE 0.5), so that building needs no header of it.
#include "backends/net/meet/handover.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <system_error>
#include <utility>

#include "backends/net/connection/frame.h"
#include "core/base/bytes.h"
#include "core/base/join_text.h"
#include "core/base/log.h"
#include "core/base/os/interfaces.h"
#include "core/base/wire_codec.h"

namespace ronde::net {

namespace {

using Context = void;  // struct munge_ctx

enum Option : int {
  kCipher = 0,
  kTimeToLive = 4,
  kEncodeTime = 6,
  kDecodeTime = 7,
  kOnlyUser = 9,
};
constexpr int kAes128 = 4;  // whatever munged's default: never in clear

enum Answer : int { kSuccess = 0, kExpired = 15, kRewound = 16, kReplayed = 17 };

/// The functions of libmunge.
struct Api {
  Context* (*create)() = nullptr;
  void (*destroy)(Context*) = nullptr;
  const char* (*context_error)(Context*) = nullptr;
  const char* (*error)(int) = nullptr;
  int (*get)(Context*, int, ...) = nullptr;
  int (*set)(Context*, int, ...) = nullptr;
  int (*encode)(char**, Context*, const void*, int) = nullptr;
  int (*decode)(const char*, Context*, void**, int*, uid_t*, gid_t*) = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  return out != nullptr;
}

Result<Api> load(const std::string& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return Status(Code::kUnavailable, fmt::format("{} has no {}", host_name(), file));
  }
  Api api;
  const bool whole =
      find(library, "munge_ctx_create", api.create) &&
      find(library, "munge_ctx_destroy", api.destroy) &&
      find(library, "munge_ctx_strerror", api.context_error) &&
      find(library, "munge_strerror", api.error) && find(library, "munge_ctx_get", api.get) &&
      find(library, "munge_ctx_set", api.set) && find(library, "munge_encode", api.encode) &&
      find(library, "munge_decode", api.decode);
  if (whole) return api;
  return Status(Code::kUnavailable, fmt::format("{} on {} is no MUNGE 0.5", file, host_name()));
}

using OwnedContext = std::unique_ptr<Context, void (*)(Context*)>;

Status failure(const Api& api, const OwnedContext& context, int code) {
  const char* detail = api.context_error(context.get());
  return {Code::kUnavailable, fmt::format("munge on {}: {}", host_name(),
                                          detail != nullptr ? detail : api.error(code))};
}

/// The clocks of the host that made the credential and of this one differ too much.
Status clock_failure(const Api& api, const OwnedContext& context) {
  std::time_t encoded = 0;
  std::time_t decoded = 0;
  (void)api.get(context.get(), kEncodeTime, &encoded);
  (void)api.get(context.get(), kDecodeTime, &decoded);
  return {Code::kUnavailable,
          fmt::format("munge on {}: the clock of rank 0's host is {} s {} this one's (or munged is "
                      "slow): synchronize both, such as by chrony",
                      host_name(), std::abs(encoded - decoded),
                      encoded > decoded ? "ahead of" : "behind")};
}

}  // namespace

Result<std::string> Munge::encode(std::string_view payload, std::chrono::seconds lifetime) const {
  RONDE_ASSIGN_OR_RETURN(const Api api, load(library_));
  const OwnedContext context(api.create(), api.destroy);
  if (!context) return Status(Code::kResourceExhausted, "no memory for a munge credential");
  const int seconds = static_cast<int>(std::min<std::int64_t>(lifetime.count(), 3600));
  int code = api.set(context.get(), kOnlyUser, ::geteuid());
  if (code == kSuccess) code = api.set(context.get(), kCipher, kAes128);
  if (code == kSuccess) code = api.set(context.get(), kTimeToLive, seconds);
  char* text = nullptr;
  if (code == kSuccess) {
    code = api.encode(&text, context.get(), payload.data(), static_cast<int>(payload.size()));
  }
  const std::unique_ptr<char, void (*)(void*)> owner(text, std::free);
  if (code != kSuccess) return failure(api, context, code);
  return std::string(text);
}

/// munged reports a credential that it has seen before, but reads it all the same: the tasks of one
/// host each read rank 0's.
Result<std::string> Munge::decode(const std::string& credential) const {
  RONDE_ASSIGN_OR_RETURN(const Api api, load(library_));
  const OwnedContext context(api.create(), api.destroy);
  if (!context) return Status(Code::kResourceExhausted, "no memory for a munge credential");
  void* data = nullptr;
  int length = 0;
  uid_t user = static_cast<uid_t>(-1);
  gid_t group = static_cast<gid_t>(-1);
  const int code = api.decode(credential.c_str(), context.get(), &data, &length, &user, &group);
  const std::unique_ptr<void, void (*)(void*)> owner(data, std::free);
  if (code == kExpired || code == kRewound) return clock_failure(api, context);
  if (code != kSuccess && code != kReplayed) return failure(api, context, code);
  if (user != ::geteuid()) {
    return Status(Code::kUnavailable,
                  fmt::format("user {} has made the credential, not {}", user, ::geteuid()));
  }
  std::string payload(static_cast<const char*>(data), static_cast<std::size_t>(length));
  if (data != nullptr) OPENSSL_cleanse(data, static_cast<std::size_t>(length));
  return payload;
}

namespace {

constexpr std::chrono::seconds kGrace{60};  // a credential outlives the time to start

/// The first bytes that a listener sends on each connection, where there is a greeting.
struct Greeting {
  std::string secret;      ///< Of the job: over Unix sockets alone. Empty: not handed over here.
  std::string credential;  ///< Over TCP. Empty: the secret is in a file.

  static void fields(auto& wire, auto& self) { wire(self.secret, self.credential); }
};

/// The contents of the credential.
struct Payload {
  std::string job;
  std::array<std::byte, Secret::kBytes> secret{};

  static void fields(auto& wire, auto& self) { wire(self.job, self.secret); }
};

std::string framed(const Greeting& greeting) {
  return frame_of(encode_wire<std::string>(greeting));
}

Result<Greeting> read(std::string_view bytes) {
  auto greeting = decode_wire<Greeting>(as_bytes(bytes), "greeting");
  if (!greeting.ok()) return Status(Code::kUnavailable, "another program listens there");
  return greeting;
}

Result<std::string> make_credential(const HandoverArgs& args, const Secret& secret) {
  Payload payload{.job = args.job, .secret = {}};
  std::ranges::copy(secret.bytes(), payload.secret.begin());
  const auto lifetime = std::chrono::ceil<std::chrono::seconds>(args.start_timeout) + kGrace;
  return args.munge.encode(encode_wire<std::string>(payload), lifetime);
}

Result<Secret> open_credential(const HandoverArgs& args, const std::string& credential) {
  RONDE_ASSIGN_OR_RETURN(const std::string bytes, args.munge.decode(credential));
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
                            host_name(), join_text(places, ", ")));
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
    offer.greeting_ = framed({.secret = {}, .credential = std::move(*credential)});
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

std::string make_greeting(const std::optional<Secret>& handed_over) {
  Greeting greeting;
  if (handed_over) greeting.secret = as_text(handed_over->bytes());
  return framed(greeting);
}

Result<Secret> secret_on_host(std::string_view bytes, const std::optional<Secret>& known) {
  RONDE_ASSIGN_OR_RETURN(const Greeting greeting, read(bytes));
  if (known) return *known;
  if (greeting.secret.size() == Secret::kBytes) {
    return Secret(as_bytes(greeting.secret).first<Secret::kBytes>());
  }
  return Status(Code::kInvalidArgument,
                "the other ranks have a secret but this one has none: set RONDE_SECRET_FILE (or "
                "RONDE_SECRET_FD) alike on all ranks");
}

Result<Secret> secret_of_rank_0(std::string_view bytes, const HandoverArgs& args) {
  RONDE_ASSIGN_OR_RETURN(const Greeting greeting, read(bytes));
  return greeting.credential.empty() ? find_file(args) : open_credential(args, greeting.credential);
}

}  // namespace ronde::net
