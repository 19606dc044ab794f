// The declarations below are those of munge.h (MUNGE 0.5), so that building needs no header of it.
#include "backends/net/rendezvous/munge.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "core/base/os/interfaces.h"

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

}  // namespace ronde::net
