#include "core/protocol/tree_sender.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

/// A rank with a parent and two children.
struct Sending {
  std::vector<OutFrame> sent() {
    std::vector<OutFrame> out;
    sender.send_tick(3);
    sender.take(out);
    return out;
  }
  const TreePlace place{0, {5, 6}};
  TreeSender sender{place};
  FrameReader reader;
};

}  // namespace

TEST_CASE_FIXTURE(Sending, "TreeSender: a tick goes up without the empty words at its front") {
  CHECK(sent().empty());
  sender.tick().words = {0, 0, 9};
  const auto out = sent();
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == 0);
  CHECK(sent().empty());
  REQUIRE(reader.read(out[0].bytes).ok());
  CHECK(reader.tick.acked == 3);
  CHECK(reader.tick.first_word == 2);
  CHECK(reader.tick.words == std::vector<std::uint64_t>{9});
  sender.tick().words = {0, 0};
  sender.tick().leaver = 5;
  REQUIRE(reader.read(sent().at(0).bytes).ok());
  CHECK(reader.tick.first_word == 0);
  CHECK(reader.tick.words.empty());
  CHECK(reader.tick.leaver == 5);
}

TEST_CASE_FIXTURE(Sending, "TreeSender: a frame goes down to every child, made here or passed on") {
  sender.send_down(WarningFrame{{"late"}});
  const auto made = sent();
  REQUIRE(made.size() == 2);
  CHECK(made[0].to == 5);
  CHECK(made[1].to == 6);
  CHECK(made[0].bytes == made[1].bytes);
  sender.forward(made[0].bytes);
  const auto passed_on = sent();
  REQUIRE(passed_on.size() == 2);
  CHECK(passed_on[1].bytes == made[0].bytes);
  CHECK(sender.taken() == 4);
}

}  // namespace ronde
