#include "ops/compression/spec.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace ronde {

TEST_CASE("A compression's name stands for its defaults") {
  const auto int8 = parse_compression("int8");
  REQUIRE(int8.ok());
  CHECK(int8->kind == CodecKind::kInt8);
  CHECK(int8->block == 512);
  CHECK(int8->error_feedback);
  CHECK_FALSE(int8->stochastic);
  CHECK_FALSE(parse_compression("fp16")->error_feedback);
  CHECK_FALSE(parse_compression("bf16")->error_feedback);
  CHECK(parse_compression("int4")->block == 256);
  CHECK(parse_compression("onebit")->block == 64);
}

TEST_CASE("Equal compressions are written alike") {
  for (const char* text :
       {"fp16", "bf16:ef=on", "int8", "int4:block=64,rounding=stochastic,seed=9",
        "onebit:block=1024,ef=off", "topk", "randomk:ratio=0.1,seed=3", "powersgd:rank=2",
        "topk:ratio=0.001,select=sampled,momentum=0.9,nesterov=on,masking=off,"
        "warmup=100,clip=0.25",
        "auto", "auto:accuracy=aggressive,residual=bf16", "int8:residual=bf16",
        "fp16:ef=on,residual=bf16"}) {
    CHECK(to_string(*parse_compression(text)) == text);
  }
  CHECK(to_string(*parse_compression("int8:seed=0,rounding=nearest,block=512,ef=on")) == "int8");
}

TEST_CASE("What is wrong with a compression is said with the value and what is allowed") {
  const auto message = [](const char* text) {
    const auto result = parse_compression(text);
    CHECK(result.status().code() == Code::kInvalidArgument);
    return result.status().message();
  };
  CHECK(message("int5").find("allowed: fp16, bf16, int8, int4, onebit") != std::string::npos);
  CHECK(message("auto:accuracy=best").find("lossless, safe, aggressive") != std::string::npos);
  CHECK(message("auto:ef=off").find("no parameter 'ef'; allowed: accuracy, residual") !=
        std::string::npos);
  CHECK(message("").find("not known") != std::string::npos);
  CHECK(message("int8:block=100").find("block=100; allowed: multiples of 64") != std::string::npos);
  CHECK(message("int8:block=0").find("block=0") != std::string::npos);
  CHECK(message("int8:block=8192").find("to 4096") != std::string::npos);
  CHECK(message("int8:block=-64").find("block=-64") != std::string::npos);
  CHECK(message("int8:rounding=up").find("nearest, stochastic") != std::string::npos);
  CHECK(message("int8:seed=x").find("seed=x") != std::string::npos);
  CHECK(message("int8:ef").find("allowed: on, off") != std::string::npos);
  CHECK(message("fp16:block=64").find("no parameter 'block'; allowed: ef") != std::string::npos);
  CHECK(message("onebit:seed=1").find("allowed: block, warmup, ef, residual") != std::string::npos);
  for (const char* ratio : {"0", "-1", "1.01", "nan", "inf", "x", ""}) {
    const std::string text = fmt::format("topk:ratio={}", ratio);
    CHECK(message(text.c_str()).find("allowed: above 0, up to 1") != std::string::npos);
  }
  for (const char* rank : {"0", "65", "-1", "1.5"}) {
    const std::string text = fmt::format("powersgd:rank={}", rank);
    CHECK(message(text.c_str()).find("allowed: whole numbers from 1 to 64") != std::string::npos);
  }
  CHECK(message("topk:momentum=1").find("momentum=1; allowed: from 0") != std::string::npos);
  CHECK(message("topk:momentum=0.9,ef=off").find("needs ef=on") != std::string::npos);
  CHECK(message("int8:residual=fp16").find("residual=fp16; allowed: fp32, bf16") !=
        std::string::npos);
  CHECK(message("int8:residual=bf16,ef=off").find("needs ef=on") != std::string::npos);
  CHECK(message("fp16:residual=bf16").find("needs ef=on") != std::string::npos);
  CHECK(message("topk:nesterov=on").find("needs a momentum") != std::string::npos);
  CHECK(message("randomk:momentum=0.9").find("allowed: ratio, warmup, seed, ef, residual") !=
        std::string::npos);
}

TEST_CASE("In training what sends little begins with a warm-up, unless it is told otherwise") {
  const auto trains_as = [](const char* text) { return to_string(*training_compression(text)); };
  CHECK(trains_as("topk") == "topk:warmup=1600");
  CHECK(trains_as("topk:ratio=0.05,clip=1") == "topk:ratio=0.05,warmup=1600,clip=1");
  CHECK(trains_as("topk:warmup=7") == "topk:warmup=7");
  CHECK(trains_as("topk:warmup=0") == "topk");
  CHECK(trains_as("powersgd:rank=2") == "powersgd:warmup=200,rank=2");
  CHECK(trains_as("onebit") == "onebit:warmup=200");
  CHECK(trains_as("randomk:warmup=3") == "randomk:warmup=3");
  for (const char* text : {"fp16", "int8", "topk:ef=off", "auto", "auto:accuracy=aggressive"}) {
    CHECK(trains_as(text) == text);
  }
  CHECK(training_compression("topk:ratio=2").status().code() == Code::kInvalidArgument);
}

TEST_CASE("What may send little of a tensor is for large ones where nobody names them") {
  const auto fewest = [](const char* text) { return fewest_elements(*parse_compression(text)); };
  for (const char* text : {"fp16", "int8", "int4", "auto", "auto:accuracy=safe"}) {
    CHECK(fewest(text) == 4096);
  }
  for (const char* text : {"onebit", "topk", "randomk", "powersgd", "auto:accuracy=aggressive"}) {
    CHECK(fewest(text) == 16384);
  }
}

TEST_CASE("Only sums and averages of floating types are compressible") {
  constexpr auto kAllreduce = Collective::kAllreduce;
  const auto says = [](const Status& status, const char* what) {
    return status.code() == Code::kInvalidArgument &&
           status.message().find(what) != std::string::npos;
  };
  CHECK(check_compressible(kAllreduce, DType::kFloat32, ReduceOp::kAverage).ok());
  CHECK(check_compressible(kAllreduce, DType::kBfloat16, ReduceOp::kSum).ok());
  CHECK(says(check_compressible(kAllreduce, DType::kInt32, ReduceOp::kSum), "int32"));
  CHECK(says(check_compressible(kAllreduce, DType::kFloat32, ReduceOp::kMax), "op max"));
  CHECK(says(check_compressible(Collective::kReduce, DType::kFloat32, ReduceOp::kSum),
             "compression of reduce"));
}

}  // namespace ronde
