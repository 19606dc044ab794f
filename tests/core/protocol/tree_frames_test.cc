#include "core/protocol/tree_frames.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

const TreePlace kInner{3, {5, 6}};

std::vector<OutFrame> taken(TreeFrames& frames) {
  std::vector<OutFrame> out;
  frames.take(out);
  return out;
}

TEST_CASE("TreeFrames: a draft goes to the parent once, without the empty words at its front") {
  TreeFrames frames(kInner);
  TickDraft draft;
  frames.send_up(draft, 7);
  CHECK(taken(frames).empty());
  draft.open().words = {0, 0, 9};
  frames.send_up(draft, 7);
  CHECK(draft.is_empty);
  CHECK(draft.frame.words.empty());
  frames.send_up(draft, 7);
  const auto out = taken(frames);
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == 3);
  FrameReader reader;
  REQUIRE(reader.read(out[0].bytes).value() == FrameKind::kTick);
  CHECK(reader.tick.acked == 7);
  CHECK(reader.tick.first_word == 2);
  CHECK(reader.tick.words == std::vector<std::uint64_t>{9});
}

TEST_CASE("TreeFrames: a tick whose words are all empty has none") {
  TreeFrames frames(kInner);
  TickDraft draft;
  draft.open().words = {0, 0};
  draft.open().leaver = 5;
  frames.send_up(draft, 1);
  FrameReader reader;
  REQUIRE(reader.read(taken(frames).at(0).bytes).ok());
  CHECK(reader.tick.first_word == 0);
  CHECK(reader.tick.words.empty());
  CHECK(reader.tick.leaver == 5);
}

TEST_CASE("TreeFrames: a frame goes down to every child, made here or passed on") {
  TreeFrames frames(kInner);
  frames.send_down(WarningFrame{{"late"}});
  const auto made = taken(frames);
  REQUIRE(made.size() == 2);
  CHECK(made[0].to == 5);
  CHECK(made[1].to == 6);
  CHECK(made[0].bytes == made[1].bytes);
  FrameReader reader;
  REQUIRE(reader.read(made[0].bytes).value() == FrameKind::kWarning);
  CHECK(reader.warning.texts == std::vector<std::string>{"late"});
  frames.forward(made[0].bytes);
  const auto passed_on = taken(frames);
  REQUIRE(passed_on.size() == 2);
  CHECK(passed_on[1].bytes == made[0].bytes);
  CHECK(taken(frames).empty());
  CHECK(frames.taken() == 4);
}

}  // namespace
}  // namespace ronde
