// The promises of every codec.
#include "ops/compression/codec.h"

#include <algorithm>
#include <limits>

#include "tests/ops/compression/codecs.h"

namespace ronde::test {
namespace {

double squares(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("What a codec loses is the value less what it decodes to") {
  on_each_target([] {
    for (const std::string& text : all_codecs()) {
      const auto codec = codec_of(text);
      for (const std::size_t count : odd_counts()) {
        INFO(text, ", ", count, " elements");
        const auto values = gradients(count);
        std::vector<float> lost;
        const auto frame = encoded(*codec, values, 5, &lost);
        const auto kept = decoded(*codec, frame, count);
        for (std::size_t i = 0; i < count; ++i) REQUIRE(lost[i] == values[i] - kept[i]);
      }
    }
  });
}

TEST_CASE("What is lost may take the place of the values") {
  for (const std::string& text : all_codecs()) {
    INFO(text);
    const auto codec = codec_of(text);
    auto values = gradients(1000);
    std::vector<float> lost;
    const auto frame = encoded(*codec, values, 0, &lost);
    auto again = frame;
    codec->encode({values, again.data(), values.data(), 0, 0});
    CHECK(again == frame);
    CHECK(same_bits(values, lost));
  }
}

TEST_CASE("All instruction sets give the same bits") {
  for (const std::string& text : all_codecs()) {
    INFO(text);
    const auto codec = codec_of(text);
    const auto values = gradients(5000);
    const auto frame = encoded(*codec, values, 3);
    const auto kept = decoded(*codec, frame, values.size());
    on_each_target([&] {
      CHECK(encoded(*codec, values, 3) == frame);
      CHECK(same_bits(decoded(*codec, frame, values.size()), kept));
    });
  }
}

TEST_CASE("Decoding adds where it is asked to") {
  on_each_target([] {
    for (const std::string& text : all_codecs()) {
      const auto codec = codec_of(text);
      for (const std::size_t count : odd_counts()) {
        INFO(text, ", ", count, " elements");
        const auto frame = encoded(*codec, gradients(count, 1));
        const auto kept = decoded(*codec, frame, count);
        auto sum = gradients(count, 2);
        const auto before = sum;
        REQUIRE(codec->decode_add(frame, sum).ok());
        for (std::size_t i = 0; i < count; ++i) REQUIRE(sum[i] == before[i] + kept[i]);
      }
    }
  });
}

TEST_CASE("Runs that begin at a block may be encoded apart") {
  for (const std::string& text : all_codecs()) {
    INFO(text);
    const auto codec = codec_of(text);
    const auto values = gradients(5000);
    const std::size_t cut = 4096;  // a multiple of every block
    std::vector<std::byte> joined(codec->encoded_bytes(values.size()));
    const std::span all(values);
    codec->encode({all.first(cut), joined.data(), nullptr, 1, 0});
    codec->encode({all.subspan(cut), joined.data() + codec->encoded_bytes(cut), nullptr, 1, cut});
    CHECK(joined == encoded(*codec, values, 1));
  }
}

TEST_CASE("Nearest rounding and signs never lose more than there was") {
  for (const char* text : {"fp16", "bf16", "int8", "int4", "onebit"}) {
    const auto codec = codec_of(text);
    for (unsigned seed = 1; seed < 20; ++seed) {
      std::vector<float> lost;
      const auto values = gradients(3000, seed);
      encoded(*codec, values, 0, &lost);
      CHECK_MESSAGE(squares(lost) < squares(values), text);
    }
  }
}

TEST_CASE("Stochastic rounding is right on average and the same on replay") {
  for (const char* text : {"int8:rounding=stochastic", "int4:rounding=stochastic"}) {
    const auto codec = codec_of(text);
    const auto values = gradients(512);
    constexpr int kTimes = 4000;
    std::vector<double> mean(values.size());
    const float steps = codec->name() == "int8" ? 127.0F : 7.0F;
    const float step = *std::max_element(values.begin(), values.end()) / steps;
    for (int time = 0; time < kTimes; ++time) {
      const auto kept = round_trip(*codec, values, static_cast<std::uint64_t>(time));
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] += kept[i] / double{kTimes};
      }
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      // A rounding error within one step deviates by at most half a step; 6 sigma.
      const double tolerance = 6 * step / 2 / std::sqrt(double{kTimes});
      CHECK_MESSAGE(std::abs(mean[i] - values[i]) < tolerance, text, " at ", i);
    }
    CHECK(encoded(*codec, values, 7) == encoded(*codec, values, 7));
    CHECK(encoded(*codec, values, 7) != encoded(*codec, values, 8));
  }
}

TEST_CASE("Neither NaN nor infinity becomes a number") {
  on_each_target([] {
    for (const std::string& text : all_codecs()) {
      const auto codec = codec_of(text);
      for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
        for (const std::size_t at : {0UL, 7UL, 1030UL, 2048UL}) {
          INFO(text, ": ", bad, " at ", at);
          auto values = gradients(2049);
          values[at] = bad;
          const auto kept = round_trip(*codec, values);
          CHECK_FALSE(std::isfinite(kept[at]));
          const std::size_t block = at / codec->block();
          for (std::size_t i = 0; i < kept.size(); ++i) {
            if (i / codec->block() != block) REQUIRE(std::isfinite(kept[i]));
          }
        }
      }
    }
  });
}

TEST_CASE("The largest and smallest numbers stay numbers") {
  const float most = std::numeric_limits<float>::max();
  const float least = std::numeric_limits<float>::denorm_min();
  for (const std::string& text : all_codecs()) {
    if (text == "bf16") continue;  // rounds the largest up to infinity, as IEEE 754 says
    INFO(text);
    const auto codec = codec_of(text);
    for (const auto& values :
         {std::vector<float>(100, most), std::vector<float>(100, -most),
          std::vector<float>(100, least), std::vector<float>{most, -most, least, 0.0F}}) {
      for (const float v : round_trip(*codec, values)) CHECK(std::isfinite(v));
    }
  }
}

TEST_CASE("Nothing takes no bytes") {
  for (const std::string& text : all_codecs()) {
    const auto codec = codec_of(text);
    CHECK(codec->encoded_bytes(0) == 0);
    CHECK(encoded(*codec, {}).empty());
    CHECK(codec->decode({}, {}).ok());
  }
}

TEST_CASE("A frame of another length is an error, one of other bytes is not") {
  std::mt19937 random(1);
  for (const std::string& text : all_codecs()) {
    INFO(text);
    const auto codec = codec_of(text);
    auto frame = encoded(*codec, gradients(1000));
    std::vector<float> out(1000);
    frame.pop_back();
    CHECK(codec->decode(frame, out).code() == Code::kInvalidArgument);
    frame.resize(frame.size() + 2);
    const Status status = codec->decode_add(frame, out);
    CHECK(status.message().find("does not hold 1000 elements of") != std::string::npos);
    frame.pop_back();
    for (int time = 0; time < 20; ++time) {
      for (std::byte& byte : frame) byte = static_cast<std::byte>(random());
      CHECK(codec->decode(frame, out).ok());
    }
  }
}

}  // namespace ronde::test
