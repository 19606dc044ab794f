#include "bindings/cli/launch/call_folder.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

/// The call that the frames bring.
std::string call_of(const std::vector<std::string>& frames) {
  std::string call;
  for (const std::string& bytes : frames) {
    AgentFrameReader reader;
    reader.feed(bytes);
    const auto frame = reader.next();
    REQUIRE(frame.ok());
    REQUIRE((*frame)->type == FrameType::kCall);
    with_message<CallMessage>(**frame, [&](const CallMessage& piece) { call += piece.bytes; });
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
