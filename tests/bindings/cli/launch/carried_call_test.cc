#include "bindings/cli/launch/carried_call.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

#include "bindings/cli/launch/messages.h"
#include "tests/support/contains.h"

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

}  // namespace
}  // namespace ronde
