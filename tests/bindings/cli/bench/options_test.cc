#include "bindings/cli/bench/options.h"

#include <doctest/doctest.h>

namespace ronde::bench {
namespace {

Status refusal(const OptionTexts& texts, const Options& options = {}) {
  return complete(options, texts).status();
}

TEST_CASE("sizes are bytes, with K, M and G as powers of 1024") {
  CHECK(parse_bytes("0").value() == 0);
  CHECK(parse_bytes("4").value() == 4);
  CHECK(parse_bytes("64K").value() == 65'536);
  CHECK(parse_bytes("3M").value() == 3'145'728);
  CHECK(parse_bytes("2G").value() == 2'147'483'648);
}

TEST_CASE("a collective is one that runs; join is not offered") {
  CHECK(parse_data_collective("alltoall").value() == Collective::kAlltoall);
  for (const char* wrong : {"join", "--help", ""}) {
    const std::string message = parse_data_collective(wrong).status().message();
    CHECK(message.starts_with("collective \"" + std::string(wrong) +
                              "\" is not valid; allowed: allreduce, "));
    CHECK(message.ends_with("barrier"));
  }
}

TEST_CASE("what is not a size is refused, naming it") {
  for (const char* text :
       {"", "K", "4k", "4KB", "-4", "1.5M", "99999999999999999999", "9999999G"}) {
    const auto size = parse_bytes(text);
    REQUIRE_FALSE(size.ok());
    CHECK(size.status().code() == Code::kInvalidArgument);
    CHECK(size.status().message().find(text) != std::string::npos);
  }
}

TEST_CASE("lists lose empty words") {
  CHECK(split_list("mpi,gloo") == std::vector<std::string>{"mpi", "gloo"});
  CHECK(split_list(",mpi,,") == std::vector<std::string>{"mpi"});
  CHECK(split_list("").empty());
}

TEST_CASE("texts become options") {
  const auto options = complete({}, {.collective = "alltoall",
                                     .mode = "raw",
                                     .sizes = "4,1K",
                                     .dtype = "bfloat16",
                                     .peers = "gloo",
                                     .bytes = "8K"});
  REQUIRE(options.ok());
  CHECK(options.value().kind == Collective::kAlltoall);
  CHECK(options.value().calls == Calls::kRaw);
  CHECK(options.value().sizes == std::vector<std::size_t>{4, 1024});
  CHECK(options.value().dtype == DType::kBfloat16);
  CHECK(options.value().peers == std::vector<std::string>{"gloo"});
  CHECK(options.value().bytes == 8192);
}

TEST_CASE("wrong values are refused with what is allowed") {
  OptionTexts texts;
  texts.mode = "fast";
  CHECK(refusal(texts).message().find("both, raw, named, async, many, replay, step") !=
        std::string::npos);
  texts = {};
  texts.peers = "nccl";
  CHECK(refusal(texts).message().find("mpi, gloo") != std::string::npos);
  texts = {};
  texts.sizes = ",";
  CHECK(refusal(texts).code() == Code::kInvalidArgument);
  for (const char* sizes : {"0", "4,6"}) {
    texts.sizes = sizes;
    CHECK(refusal(texts).message().find("multiples of 4 bytes") != std::string::npos);
  }
  texts = {};
  texts.collective = "allreduces";
  CHECK(refusal(texts).code() == Code::kInvalidArgument);
  texts.collective = "join";
  CHECK(refusal(texts).code() == Code::kInvalidArgument);
  Options options;
  options.repetitions = 19;
  CHECK(refusal({}, options).message().find("20 or more") != std::string::npos);
  options = {};
  options.np = 0;
  CHECK(refusal({}, options).message().find("-np") != std::string::npos);
}

TEST_CASE("averages and Adasum are for floating types and collectives that have them") {
  const auto with_op = [](const char* op) {
    OptionTexts texts;
    texts.op = op;
    return texts;
  };
  OptionTexts texts = with_op("adasum");
  CHECK(complete({}, texts).value().op == ReduceOp::kAdasum);
  texts.collective = "reduce_scatter";
  CHECK(refusal(texts).message().find("--op \"adasum\" is not valid; allowed: sum with reduce_s") !=
        std::string::npos);
  texts.op = "average";
  CHECK(refusal(texts).ok());
  texts.dtype = "int32";
  CHECK(refusal(texts).message().find("sum with int32") != std::string::npos);
  CHECK(refusal(with_op("min")).message().find("sum, average, adasum") != std::string::npos);
  CHECK(refusal(with_op("mean")).code() == Code::kInvalidArgument);
  Options tuning;
  tuning.tune = "t.json";
  CHECK(refusal(with_op("average"), tuning).message().find("--tune") != std::string::npos);
}

TEST_CASE("modes many, replay and step are for allreduce, and replay for known models") {
  OptionTexts texts;
  texts.mode = "many";
  CHECK(refusal(texts).ok());
  texts.collective = "broadcast";
  CHECK(refusal(texts).message().find("allreduce in modes") != std::string::npos);
  texts = {};
  texts.mode = "replay";
  CHECK(refusal(texts).ok());
  Options options;
  options.model = "resnet51";
  CHECK(refusal(texts, options).message().find("resnet50") != std::string::npos);
}

}  // namespace
}  // namespace ronde::bench
