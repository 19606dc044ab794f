#include <doctest/doctest.h>

#include <filesystem>

#include "bindings/cli/launch/console.h"
#include "tests/timeline/scratch.h"

namespace ronde {

TEST_CASE("line printer: every line gets its rank, however the bytes are cut") {
  LinePrinter printer;
  CHECK(printer.feed(0, "one\ntwo\nth") == "[0] one\n[0] two\n");
  CHECK(printer.feed(1, "other\n") == "[1] other\n");
  CHECK(printer.feed(0, "ree\n") == "[0] three\n");
  CHECK(printer.feed(0, "\n") == "[0] \n");
}

TEST_CASE("line printer: a progress bar goes on overwriting its line") {
  LinePrinter printer;
  CHECK(printer.feed(0, "\r 10%") == "\r");
  CHECK(printer.feed(0, "\r 20%") == "[0]  10%\r");
  CHECK(printer.flush_partial() == "[0]  20%");
  CHECK(printer.feed(0, "\r 30%\n") == "\r[0]  30%\n");
}

TEST_CASE("line printer: Windows line ends make one line") {
  LinePrinter printer;
  CHECK(printer.feed(0, "a\r\nb\r\n") == "[0] a\r\n[0] b\r\n");
}

TEST_CASE("line printer: an unfinished line goes on without a second prefix") {
  LinePrinter printer;
  CHECK(printer.feed(0, "ready? ") == "");
  CHECK(printer.has_partial());
  CHECK(printer.flush_partial() == "[0] ready? ");
  CHECK_FALSE(printer.has_partial());
  CHECK(printer.feed(0, "yes\n") == "yes\n");
}

TEST_CASE("line printer: another rank does not write into an unfinished line") {
  LinePrinter printer;
  (void)printer.feed(0, "working");
  CHECK(printer.flush_partial() == "[0] working");
  CHECK(printer.feed(1, "hello\n") == "\n[1] hello\n");
  CHECK(printer.feed(0, " on\n") == "[0]  on\n");
  (void)printer.feed(0, "x");
  (void)printer.flush_partial();
  CHECK(printer.own_line("ronde run: done") == "\nronde run: done\n");
}

TEST_CASE("rank files: a rank's file is made when it writes, and kept by a later attempt") {
  const ScratchFolder folder;
  RankFiles first;
  REQUIRE(first.open(folder.file("logs"), 1).ok());
  CHECK(std::filesystem::exists(folder.file("logs/rank.0.txt")));
  CHECK(first.append(7, "one\n").empty());
  RankFiles second;
  REQUIRE(second.open(folder.file("logs"), 0, true).ok());
  CHECK(second.append(7, "two\n").empty());
  CHECK(content_of(folder.file("logs/rank.7.txt")) == "one\ntwo\n");
}

}  // namespace ronde
