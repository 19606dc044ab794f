#include "bindings/cli/launch/carried_call.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "bindings/cli/launch/failure_report.h"
#include "bindings/cli/launch/messages.h"
#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

TEST_CASE("call: the memory file holds all pieces in order") {
  CarriedCall call;
  CHECK_FALSE(call.is_there());
  call.take("ab");
  call.take("cde");
  CHECK(call.status().ok());
  REQUIRE(call.is_there());
  std::string read(10, '\0');
  CHECK(::pread(call.call(), read.data(), read.size(), 0) == 5);
  CHECK(read.substr(0, 5) == "abcde");
}

TEST_CASE("call: once a piece could not be kept, no rank can have it") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{2, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  CarriedCall call;
  call.take("abc");
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, handler);
  call.take("d");
  CHECK(call.status().code() == Code::kResourceExhausted);
  CHECK(
      test::contains(call.status().message(), "cannot keep the function to call: File too large"));
}

std::vector<std::string> pieces_of(int file) {
  std::vector<std::string> pieces;
  send_answer(file, [&](std::string piece) { pieces.push_back(std::move(piece)); });
  return pieces;
}

TEST_CASE("answer: it is sent when it is sealed, and ends with an empty piece") {
  const auto file = make_answer_file();
  REQUIRE(file.ok());
  const std::string answer = std::string(kCallPieceBytes, 'a') + "bc";
  REQUIRE(::write(file->get(), answer.data(), answer.size()) ==
          static_cast<ssize_t>(answer.size()));
  CHECK(pieces_of(file->get()).empty());
  REQUIRE(::fcntl(file->get(), F_ADD_SEALS, F_SEAL_WRITE) == 0);
  const auto pieces = pieces_of(file->get());
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0] + pieces[1] == answer);
  CHECK(pieces[2].empty());
}

TEST_CASE("answer: a rank without a call sends none") { CHECK(pieces_of(-1).empty()); }

/// The call that the frames bring.
std::string call_of(const std::vector<std::string>& frames) {
  std::string call;
  for (const std::string& bytes : frames) {
    MessageReader reader;
    reader.feed(bytes);
    call += std::get<CallMessage>(reader.next().value().value()).bytes;
  }
  return call;
}

TEST_CASE("call: it goes out in pieces, whole") {
  const ScratchFolder scratch;
  const std::string call = std::string(kCallPieceBytes, 'a') + "bc";
  const std::string folder =
      std::filesystem::path(scratch.write(CallFolder::kCall, call)).parent_path();
  const auto frames = CallFolder(folder).frames();
  REQUIRE(frames.ok());
  CHECK(frames->size() == 2);
  CHECK(call_of(*frames) == call);
}

TEST_CASE("call: a folder without one is an error that names it, no folder is none") {
  const ScratchFolder scratch;
  const auto frames = CallFolder(scratch.file("none")).frames();
  CHECK(frames.status().code() == Code::kInvalidArgument);
  CHECK(test::contains(frames.status().message(), scratch.file("none")));
  CHECK(CallFolder().frames()->empty());
  CHECK(CallFolder().take({0, "x"}).ok());
}

TEST_CASE("call: an answer is there when its last piece has come") {
  const ScratchFolder scratch;
  const std::string path = scratch.file("3.pickle");
  const CallFolder folder(std::filesystem::path(path).parent_path());
  CHECK(folder.take({3, "ab"}).ok());
  CHECK(folder.take({3, "c"}).ok());
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(folder.take({3, ""}).ok());
  CHECK(content_of(path) == "abc");
  CHECK(CallFolder(scratch.file("none")).take({3, "ab"}).code() == Code::kUnavailable);
}

TEST_CASE("call: a failure is told with the rank that is its cause") {
  const ScratchFolder scratch;
  const std::string path = scratch.file(CallFolder::kFailure);
  const CallFolder folder(std::filesystem::path(path).parent_path());
  folder.write_failure("no \"host\"");
  CHECK(content_of(path) == R"({"text":"no \"host\""})");
  RankEnd end;
  end.rank = 2;
  end.pid = 7;
  end.host = "b";
  folder.write_failure("was killed", &end);
  CHECK(content_of(path) == R"({"host":"b","pid":7,"rank":2,"text":"was killed"})");
}

}  // namespace

}  // namespace ronde
