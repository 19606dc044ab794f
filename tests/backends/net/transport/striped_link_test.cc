// One end of a link over two connections; the test writes the chunks of the other end itself.
#include "backends/net/transport/striped_link.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "tests/backends/net/stream_pair.h"

namespace ronde::net {
namespace {

constexpr std::size_t kLinkWindow = 4096;

/// A link that accepts, connected over both cards.
struct AcceptedLink {
  AcceptedLink() {
    for (std::size_t card = 0; card < peers.size(); ++card) {
      StreamPair ends;
      link.lane(card).attach({.rank = 1, .stream = std::move(ends.here)});
      peers[card].emplace(std::move(ends.there));
      write(card, {.kind = ChunkKind::kGreeting, .message = 1});
    }
  }

  /// The chunk arrives over that card.
  void write(std::size_t card, const ChunkHeader& header, std::span<const std::byte> bytes = {}) {
    bool moved = false;
    peers[card]->begin(header, bytes);
    REQUIRE(peers[card]->write(moved).value());
    do {
      moved = false;
      std::size_t failed = 0;
      REQUIRE(link.progress(moved, failed).ok());
    } while (moved);
  }

  /// All chunks below this number are delivered, as the link has told over either card.
  std::uint64_t acknowledged() {
    for (auto& peer : peers) {
      bool moved = false;
      for (auto step = peer->read(moved); *step != ChunkStream::Step::kNothing;
           step = peer->read(moved)) {
        if (*step == ChunkStream::Step::kHeader) peer->place({});
        furthest = std::max(furthest, peer->incoming().delivered);
      }
    }
    return furthest;
  }

  StripedLink link{/*dials=*/false, kLinkWindow, 2};
  std::array<std::optional<ChunkStream>, 2> peers;
  std::uint64_t furthest = 0;
};

TEST_CASE("a full window is acknowledged though its first chunk comes last") {
  constexpr std::uint32_t kFirst = 100;
  constexpr std::uint32_t kOther = 960;  // with their cost, four of them fill the window
  static_assert(4 * (kOther + kChunkCost) == kLinkWindow);
  const std::vector<std::byte> data(kOther);
  std::vector<std::byte> in(kFirst + 10 * kOther);
  AcceptedLink here;
  here.link.post_receive(in);
  ChunkHeader header{.kind = ChunkKind::kData, .length = kOther, .total = in.size()};
  for (std::uint64_t number = 1; number <= 4; ++number) {
    header.sequence = number;
    header.offset = kFirst + (number - 1) * kOther;
    here.write(1, header, data);
  }
  CHECK(here.acknowledged() == 0);
  header.length = kFirst;
  header.sequence = header.offset = 0;
  here.write(0, header, std::span(data).first(kFirst));
  CHECK(here.acknowledged() == 5);
}

TEST_CASE("a goodbye is acknowledged though a chunk before it comes later") {
  AcceptedLink here;
  here.link.post_receive({});
  here.write(1, {.kind = ChunkKind::kGoodbye, .sequence = 1});
  here.write(0, {.kind = ChunkKind::kData, .sequence = 0});
  CHECK(here.link.peer_left());
  CHECK(here.acknowledged() == 2);
}

}  // namespace
}  // namespace ronde::net
