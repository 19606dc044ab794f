#include "ops/compression/registry.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("A codec makes frames exactly where its row says so") {
  for (std::size_t i = 0; i < kCodecKinds; ++i) {
    const auto kind = static_cast<CodecKind>(i);
    const CodecRow& row = codec_row(kind);
    CAPTURE(codec_name(kind));
    CHECK(row.kind == kind);
    CHECK((row.wire_share != nullptr));
    const auto codec = make_codec(default_spec(kind));
    CHECK((codec != nullptr) == (row.payload == Payload::kFrames));
    CHECK((row.device_format && codec == nullptr) == false);
    if (codec) CHECK(codec->name() == codec_name(kind));
  }
}

}  // namespace ronde
