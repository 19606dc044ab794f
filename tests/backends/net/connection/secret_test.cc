// Where the secret comes from, and the known answers of what is made of it.
#include "backends/net/connection/secret.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "backends/net/connection/socket.h"
#include "core/base/bytes.h"
#include "tests/backends/net/processes.h"
#include "tests/support/contains.h"

namespace ronde::net {
namespace {

using test::contains;

const std::string kHex = "00112233445566778899aabbccddeeff0123456789abcdefFEDCBA9876543210";

/// A file that is removed with it.
struct File {
  explicit File(const std::string& text, mode_t mode = 0600) {
    const FileDescriptor fd(::mkstemp(path.data()));
    REQUIRE(::write(fd.get(), text.data(), text.size()) >= 0);
    REQUIRE(::fchmod(fd.get(), mode) == 0);
  }
  ~File() { ::unlink(path.c_str()); }
  std::string path = "/tmp/ronde-test-XXXXXX";
};

Result<std::optional<Secret>> from_file(const std::string& path) {
  Config config;
  config.secret_file = path;
  return read_secret(config);
}

TEST_CASE("a secret is read from a private file") {
  const File file(kHex + "\n");
  const auto secret = from_file(file.path);
  REQUIRE(secret.ok());
  CHECK(hex(secret.value()->bytes()).substr(0, 32) == kHex.substr(0, 32));
}

TEST_CASE("a file that others may read is refused") {
  for (const mode_t mode : {0440U, 0444U, 0604U, 0640U, 0644U, 0660U}) {  // no Secret volume here
    const File file(kHex, mode);
    const std::string message = from_file(file.path).status().message();
    CAPTURE(message);
    CHECK(contains(message, "chmod 600, or defaultMode: 0400 of a Secret volume"));
    CHECK(contains(message, fmt::format("its mode is {:o} and its owner {}", mode, ::geteuid())));
  }
}

/// Reads a file of this owner, group 2000 and mode, as user 1000 with that group. The file is on a
/// tmpfs with these mount options and reached by "..data", as kubelet makes a Secret volume.
int read_in_pod(uid_t owner, mode_t mode, unsigned long options) {
  const std::string volume = "/mnt";
  RONDE_CHILD_REQUIRE(::unshare(CLONE_NEWNS) == 0);
  RONDE_CHILD_REQUIRE(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
  RONDE_CHILD_REQUIRE(::mount("none", volume.c_str(), "tmpfs", 0, "mode=755") == 0);
  RONDE_CHILD_REQUIRE(::mkdir((volume + "/..1").c_str(), 0755) == 0);
  RONDE_CHILD_REQUIRE(::symlink("..1", (volume + "/..data").c_str()) == 0);
  RONDE_CHILD_REQUIRE(::symlink("..data/secret", (volume + "/secret").c_str()) == 0);
  {
    const std::string path = volume + "/..1/secret";
    const FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600));
    RONDE_CHILD_REQUIRE(::write(fd.get(), kHex.data(), kHex.size()) == 64);
    RONDE_CHILD_REQUIRE(::fchown(fd.get(), owner, 2000) == 0 && ::fchmod(fd.get(), mode) == 0);
  }
  RONDE_CHILD_REQUIRE(
      ::mount(nullptr, volume.c_str(), nullptr, MS_REMOUNT | MS_BIND | options, nullptr) == 0);
  const gid_t group = 2000;
  RONDE_CHILD_REQUIRE(::setgroups(1, &group) == 0 && ::setgid(1000) == 0 && ::setuid(1000) == 0);
  return from_file(volume + "/secret").ok() ? 0 : 2;
}

TEST_CASE("a Secret volume with fsGroup is read, and nothing that others can read or change") {
  if (run_ranks(1, [](int) { return ::unshare(CLONE_NEWNS) == 0 ? 0 : 1; }) != all_good(1)) {
    MESSAGE("not run: mount namespaces need root");
    return;
  }
  struct Case {
    uid_t owner;
    mode_t mode;
    unsigned long options;
    int code;
  };
  for (const Case& c :
       {Case{0, 0440, MS_RDONLY, 0}, Case{0, 0444, MS_RDONLY, 2}, Case{0, 0644, MS_RDONLY, 2},
        Case{0, 0460, MS_RDONLY, 2}, Case{1001, 0440, MS_RDONLY, 2}, Case{0, 0440, 0, 2}}) {
    CAPTURE(c.owner);
    CAPTURE(c.mode);
    CAPTURE(c.options);
    const auto pod = [&c](int) { return read_in_pod(c.owner, c.mode, c.options); };
    CHECK(run_ranks(1, pod) == std::vector<int>{c.code});
  }
}

TEST_CASE("what is no secret is refused, naming the setting") {
  for (const std::string& text : {std::string(), kHex.substr(1), "x" + kHex.substr(1)}) {
    const File file(text);
    const Status status = from_file(file.path).status();
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.message().find("RONDE_SECRET_FILE") != std::string::npos);
    CHECK(status.message().find("aabb") == std::string::npos);  // never shown
  }
  CHECK(from_file("/nonexistent/secret").status().code() == Code::kInvalidArgument);
  CHECK(from_file("/tmp").status().code() == Code::kInvalidArgument);
}

TEST_CASE("a memfd is read each time and closed on exec") {
  Config config;
  const FileDescriptor fd(::memfd_create("secret", 0));
  REQUIRE(::write(fd.get(), kHex.data(), kHex.size()) == 64);
  config.secret_fd = fd.get();
  for (int i = 0; i < 2; ++i) CHECK(read_secret(config).ok());
  CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a pipe with the number of the secret is refused and stays unread") {
  const Pipe pipe = make_pipe().value();
  REQUIRE(::write(pipe.write.get(), kHex.data(), kHex.size()) == 64);
  Config config;
  config.secret_fd = pipe.read.get();
  const std::string message = read_secret(config).status().message();
  CHECK(contains(message, fmt::format("RONDE_SECRET_FD={} is no file", config.secret_fd)));
  CHECK(contains(message, "Pass all RONDE_* variables on"));
  std::string text(64, '\0');
  CHECK(::read(pipe.read.get(), text.data(), 64) == 64);
}

TEST_CASE("without a setting there is no secret") {
  const auto secret = read_secret(Config{});
  REQUIRE(secret.ok());
  CHECK_FALSE(secret.value().has_value());
}

TEST_CASE("SHA-256 and HMAC-SHA256 give the published answers") {
  CHECK(hex(digest(as_bytes("abc"))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // RFC 4231, case 1, with its 20-byte key padded by zeros as HMAC itself does.
  std::array<std::byte, 32> key{};
  std::fill(key.begin(), key.begin() + 20, std::byte{0x0b});
  CHECK(hex(proof(Secret(key), as_bytes("Hi There"))) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

TEST_CASE("keys for two purposes differ, for one they agree") {
  const Secret secret = Secret::random().value();
  CHECK(hex(secret.derive("a")->bytes()) == hex(secret.derive("a")->bytes()));
  CHECK(hex(secret.derive("a")->bytes()) != hex(secret.derive("b")->bytes()));
  CHECK(hex(secret.derive("a")->bytes()) != hex(secret.bytes()));
  CHECK(hex(Secret::random()->bytes()) != hex(secret.bytes()));
}

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST_CASE("HKDF gives the answers of RFC 5869") {
  // Cases 1 and 3; the first 32 bytes of 42.
  const std::vector<std::byte> input(22, std::byte{0x0b});
  CHECK(hex(hkdf(input, from_hex("000102030405060708090a0b0c"), from_hex("f0f1f2f3f4f5f6f7f8f9"))
                ->bytes()) == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
  CHECK(hex(hkdf(input, {}, {})->bytes()) ==
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
}

}  // namespace
}  // namespace ronde::net
