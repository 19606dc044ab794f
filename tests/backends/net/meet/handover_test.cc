// Rank 0 gives the others a secret: by credentials, by a file, and what can go wrong.
#include "backends/net/meet/handover.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "backends/net/connection/handshake.h"
#include "core/base/bytes.h"
#include "tests/support/contains.h"

namespace ronde::net {
namespace {

using test::contains;

const Munge kMunge(FAKE_MUNGE);
const Munge kNoMunge("libno-such-munge.so.9");

/// A folder that is removed with its files.
struct Folder {
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::size_t files() const {
    const std::filesystem::directory_iterator all(path);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  std::string path = "/tmp/ronde-test-XXXXXX";
};

/// The secret of a dialer to which a listener sends `bytes`, then closes.
Result<Secret> receive(const std::string& bytes, const HandoverArgs& args) {
  Result<Secret> secret = Status(Code::kUnavailable, "closed");
  Handshake dialer(
      [&](std::string_view greeting) -> Result<std::shared_ptr<const Identity>> {
        secret = secret_of_rank_0(greeting, args);
        return Status(Code::kAborted, "over");
      },
      0);
  REQUIRE(dialer.start().ok());
  auto left = as_bytes(bytes);
  Status status;
  while (status.ok() && dialer.wants() <= left.size()) {
    const std::size_t wants = dialer.wants();
    status = dialer.consume(left.first(wants));
    left = left.subspan(wants);
  }
  CHECK(dialer.greeted() == (status.code() == Code::kAborted));
  return status.ok() || dialer.greeted() ? secret : Result<Secret>(status);
}

HandoverArgs args_of(const Munge& munge, std::vector<std::string> folders = {}) {
  return {.job = "slurm-17.0",
          .folders = std::move(folders),
          .start_timeout = std::chrono::seconds(1),
          .munge = munge};
}

const Secret kSecret = Secret::random().value();

TEST_CASE("handover: a credential carries the secret, and no file is written") {
  const Folder folder;
  const HandoverArgs args = args_of(kMunge, {folder.path});
  const auto offer = SecretOffer::make(args, kSecret);
  REQUIRE(offer.ok());
  CHECK(folder.files() == 0);
  const auto secret = receive(offer->greeting(), args);
  REQUIRE(secret.ok());
  CHECK(equal(secret->bytes(), kSecret.bytes()));
}

TEST_CASE("handover: the credential of another job is refused") {
  HandoverArgs args = args_of(kMunge);
  const auto offer = SecretOffer::make(args, kSecret);
  args.job = "slurm-17.1";
  const auto secret = receive(offer->greeting(), args);
  CHECK(secret.status().code() == Code::kUnavailable);
  CHECK(contains(secret.status().message(), "another job"));
}

TEST_CASE("handover: without munge a private file carries the secret, and is removed") {
  const Folder folder;
  const Folder second;
  const HandoverArgs args = args_of(kNoMunge, {folder.path, "/does/not/exist", second.path});
  {
    const auto offer = SecretOffer::make(args, kSecret);
    REQUIRE(offer.ok());
    struct stat info {};
    REQUIRE(::stat(handover_file(folder.path, args.job).c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0600);
    const auto secret = receive(offer->greeting(), args);
    REQUIRE(secret.ok());
    CHECK(equal(secret->bytes(), kSecret.bytes()));
    // A host that shares one of the folders alone.
    CHECK(receive(offer->greeting(), args_of(kNoMunge, {"/does/not/exist", second.path})).ok());
    CHECK_FALSE(contains(offer->greeting(), hex(kSecret.bytes())));
  }
  CHECK(folder.files() == 0);
  CHECK(second.files() == 0);
}

TEST_CASE("handover: a file that others can read, or without a secret, is refused") {
  const Folder folder;
  const HandoverArgs args = args_of(kNoMunge, {folder.path});
  const auto offer = SecretOffer::make(args, kSecret);
  const std::string file = handover_file(folder.path, args.job);
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  CHECK(contains(receive(offer->greeting(), args).status().message(), "its mode is 644"));
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  std::ofstream(file) << "something else\n";
  CHECK(contains(receive(offer->greeting(), args).status().message(), "does not hold a secret"));
}

TEST_CASE("handover: a host that does not share the folder is told so") {
  const Folder folder;
  const Folder elsewhere;
  const auto offer = SecretOffer::make(args_of(kNoMunge, {folder.path}), kSecret);
  const auto secret = receive(offer->greeting(), args_of(kNoMunge, {elsewhere.path}));
  CHECK(secret.status().code() == Code::kUnavailable);
  CHECK(contains(secret.status().message(), elsewhere.path));
  CHECK(contains(secret.status().message(), "RONDE_SECRET_FILE"));
}

TEST_CASE("handover: rank 0 says so where neither way is open") {
  const auto offer = SecretOffer::make(args_of(kNoMunge, {"/does/not/exist"}), kSecret);
  CHECK(offer.status().code() == Code::kUnavailable);
  CHECK(contains(offer.status().message(), "libno-such-munge.so.9"));
  CHECK(contains(offer.status().message(), "/does/not/exist"));
}

TEST_CASE("handover: whatever another program sends is worth another try") {
  for (const std::string& bytes :
       {std::string(), std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string(4, '\0'),
        std::string("\x08\0\0\0\xff\xff\xff\xff____", 12), std::string(70, '\x01')}) {
    const auto secret = receive(bytes, args_of(kMunge));
    CHECK(secret.status().code() == Code::kUnavailable);
  }
}

TEST_CASE("munge: a credential may be read again, but not by the wrong user or clock") {
  CHECK(*kMunge.decode("0:secret") == "secret");
  CHECK(*kMunge.decode("17:secret") == "secret");  // replayed: another task of this host read it
  CHECK(contains(kMunge.decode("16:secret").status().message(), "400 s ahead of this one's"));
  CHECK(contains(kMunge.decode("15:secret").status().message(), "synchronize"));
  CHECK(contains(kMunge.decode("99:secret").status().message(), "has made the credential"));
  CHECK(kMunge.decode("14:").status().code() == Code::kUnavailable);
}

TEST_CASE("munge: a munged that does not answer is named with the host") {
  const Status status = kMunge.encode("secret", std::chrono::seconds(1)).status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(contains(status.message(), "munged does not answer"));
}

TEST_CASE("handover: a missing libmunge is named with the host") {
  const Status status = kNoMunge.encode("", std::chrono::seconds(1)).status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(contains(status.message(), "libno-such-munge.so.9"));
}

}  // namespace
}  // namespace ronde::net
