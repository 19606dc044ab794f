#include "ops/compression/registry.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "ops/compression/codec.h"

namespace ronde {

TEST_CASE("Rows stand in the order of their kinds and have names of their own") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kCodecKinds; ++i) {
    const CodecRow& row = *kCodecRows[i];
    CAPTURE(row.name);
    CHECK(row.defaults.kind == static_cast<CodecKind>(i));
    CHECK(&row == &codec_row(row.defaults.kind));
    CHECK(names.insert(row.name).second);
    CHECK_FALSE(row.title.empty());
    CHECK_FALSE(row.summary.empty());
  }
}

TEST_CASE("A codec's defaults are values that its parameters take") {
  for (const CodecRow* row : kCodecRows) {
    std::set<std::string_view> keys;
    for (const CodecParameter& one : row->parameters) {
      CAPTURE(row->name);
      CAPTURE(one.key);
      CHECK(keys.insert(one.key).second);
      CHECK_FALSE(one.help.empty());
      CompressionSpec spec = row->defaults;
      CHECK(one.read(one.write(row->defaults), spec));
      CHECK(spec == row->defaults);
    }
    CHECK((row->training_warmup == 0 || keys.count("warmup") == 1));
  }
}

TEST_CASE("A codec makes frames exactly where its row says so") {
  for (const CodecRow* row : kCodecRows) {
    CAPTURE(row->name);
    CHECK((row->wire_share != nullptr));
    const auto codec = make_codec(row->defaults);
    CHECK((codec != nullptr) == (row->payload == Payload::kFrames));
    CHECK((row->device_format && codec == nullptr) == false);
    if (codec) CHECK(codec->name() == row->name);
  }
}

TEST_CASE("Devices have kernels for frames and topk, with residuals of fp32") {
  const auto on_devices = [](const char* text) {
    return runs_on_devices(*parse_compression(text));
  };
  for (const char* text : {"fp16", "bf16", "int8:rounding=stochastic", "int4", "onebit:block=128",
                           "topk", "topk:ratio=0.1,warmup=100,ef=off"}) {
    CAPTURE(text);
    CHECK(on_devices(text));
  }
  for (const char* text :
       {"int8:residual=bf16", "fp16:ef=on,residual=bf16", "topk:select=sampled",
        "topk:momentum=0.9", "topk:clip=1", "topk:residual=bf16", "randomk", "powersgd", "auto"}) {
    CAPTURE(text);
    CHECK_FALSE(on_devices(text));
  }
}

TEST_CASE("Only codecs that ranks warm up together begin dense") {
  const auto dense = [](const char* text) { return begins_dense(*parse_compression(text)); };
  CHECK(dense("onebit:warmup=1"));
  CHECK(dense("powersgd:warmup=1"));
  CHECK_FALSE(dense("onebit"));
  CHECK_FALSE(dense("topk:warmup=1"));  // which sends more at first
}

}  // namespace ronde
