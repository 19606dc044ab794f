// Faults that users plant: how they are written, and when they are planted.
#include "bindings/runtime/injection.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/os/file_descriptor.h"
#include "ops/kernels/factory.h"

namespace ronde {
namespace {

Submission submission_of(std::string name, std::vector<float>& values) {
  Submission submission;
  submission.request.kind = Collective::kAllreduce;
  submission.request.name = std::move(name);
  submission.request.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(values.size())}}};
  submission.inputs = {values.data()};
  submission.outputs = {values.data()};
  return submission;
}

/// The faults of rank 1, where `steps` steps have been marked.
class Drill {
 public:
  explicit Drill(std::string_view text) {
    auto faults = parse_injections(text);
    REQUIRE(faults.ok());
    injector_ = std::make_unique<Injector>(Injector::Options{.faults = std::move(faults).value(),
                                                             .rank = 1,
                                                             .steps = [this] { return steps; },
                                                             .kernels = kernels_.get(),
                                                             .sums = sums.get()});
  }
  Injector* operator->() { return injector_.get(); }

  bool plant_in(std::string_view name, std::vector<float>& values, std::uint64_t step) {
    return injector_->plant_in(
        {name, "float32", sizeof(float), std::as_writable_bytes(std::span(values))}, step);
  }

  std::uint64_t steps = 0;
  const std::shared_ptr<SumWitness> sums = std::make_shared<SumWitness>(create_kernels());

 private:
  std::shared_ptr<const ReduceKernels> kernels_ = create_kernels();
  std::unique_ptr<Injector> injector_;
};

/// The two ends of a TCP connection inside this process.
std::pair<FileDescriptor, FileDescriptor> connected_sockets() {
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  REQUIRE(::bind(listener.get(), address, size) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), address, &size) == 0);
  FileDescriptor dialed(::socket(AF_INET, SOCK_STREAM, 0));
  REQUIRE(::connect(dialed.get(), address, size) == 0);
  FileDescriptor accepted(::accept(listener.get(), nullptr, nullptr));
  return {std::move(dialed), std::move(accepted)};
}

Bundle sum_of(std::string_view name, std::int64_t begin, std::vector<float>& values) {
  Bundle bundle;
  bundle.kind = Collective::kAllreduce;
  BundleTensor tensor;
  tensor.name = name;
  tensor.begin = begin;
  tensor.out = values.data();
  bundle.tensors = {tensor};
  return bundle;
}

void run(Drill& drill, const Bundle& bundle, std::vector<float>& values) {
  const Segment segment{nullptr, std::as_writable_bytes(std::span(values)).data(),
                        values.size() * sizeof(float)};
  Work work;
  work.segments = {&segment, 1};
  drill->after(bundle, work);
}

}  // namespace

TEST_CASE("Injection: the parts of a fault are read in any order") {
  const auto nan = parse_injections("nan:step=20,tensor=layer3.weight,element=7,rank=1");
  REQUIRE(nan.ok());
  CHECK(nan->front().rank == 1);
  CHECK(nan->front().tensor == "layer3.weight");
  CHECK(nan->front().step == 20);
  CHECK(nan->front().element == 7);
  CHECK(parse_injections("nan:rank=0,tensor=a")->front().step == 1);
}

TEST_CASE("Injection: several faults may be given, of all kinds") {
  const auto all = parse_injections(
      "flip:rank=1,tensor=a,bit=3,where=result;drift:rank=0,tensor=b,factor=1.5;"
      "slow:rank=2,seconds=0.25;kill:rank=3,step=9;cut:rank=1,tensor=c;"
      "cut:rank=0,peer=2;sum:rank=1,tensor=d,step=4");
  REQUIRE(all.ok());
  REQUIRE(all->size() == 7);
  CHECK((*all)[0].kind == FaultKind::kFlip);
  CHECK((*all)[0].bit == 3);
  CHECK((*all)[0].in_result);
  CHECK((*all)[1].factor == 1.5);
  CHECK((*all)[2].seconds == 0.25);
  CHECK((*all)[3].step == 9);
  CHECK((*all)[4].kind == FaultKind::kCut);
  CHECK((*all)[4].peer == -1);
  CHECK((*all)[5].peer == 2);
  CHECK((*all)[6].kind == FaultKind::kSum);
  CHECK((*all)[6].step == 4);
}

TEST_CASE("Injection: anything else is refused with what is allowed") {
  for (const char* const text : {"nan",
                                 "nan:",
                                 "melt:rank=1,tensor=a",
                                 "nan:rank=1",
                                 "nan:tensor=a",
                                 "nan:rank=-1,tensor=a",
                                 "nan:rank=1,tensor=",
                                 "nan:rank=1,tensor=a,step=x",
                                 "nan:rank=1,tensor=a,place=2",
                                 "nan:rank=1x,tensor=a",
                                 "nan:rank=1,tensor",
                                 "nan:rank=1,tensor=a,bit=1",
                                 "flip:rank=1,tensor=a,where=here",
                                 "slow:rank=1",
                                 "slow:rank=1,seconds=0",
                                 "kill:step=1",
                                 "cut:rank=1,seconds=2",
                                 "cut:rank=1,peer=-1",
                                 "sum:rank=1",
                                 "sum:rank=1,tensor=a,bit=1",
                                 "kill:rank=1;nan",
                                 "drift:rank=1,tensor=a,factor=inf"}) {
    INFO(text);
    const auto refused = parse_injections(text);
    CHECK(refused.status().code() == Code::kInvalidArgument);
    CHECK(refused.status().message().find("allowed: ") != std::string::npos);
  }
  const std::string why = parse_injections("flip:rank=1").status().message();
  CHECK(why.find("flip:rank=RANK,tensor=NAME[,step=NUMBER][,element=NUMBER][,bit=NUMBER]"
                 "[,where=replica|result]") != std::string::npos);
}

TEST_CASE("Injection: a setting that no option has set is refused") {
  CHECK(asked_injections("")->empty());
  CHECK(asked_injections("--inject kill:rank=0")->size() == 1);
  const Status left = asked_injections("kill:rank=0").status();
  CHECK(left.code() == Code::kInvalidArgument);
  CHECK(left.message().find("unset RONDE_INJECT") != std::string::npos);
}

TEST_CASE("Injector: one NaN is planted, in its step and tensor") {
  Drill drill("nan:rank=1,tensor=weight,step=3,element=1");
  std::vector<float> values(3, 1.0F);
  drill->before(submission_of("weight", values));
  drill.steps = 2;
  drill->before(submission_of("bias", values));
  std::vector<float> short_one(1, 1.0F);
  drill->before(submission_of("weight", short_one));
  CHECK(values == std::vector<float>(3, 1.0F));
  drill->before(submission_of("layer.weight", values));
  CHECK(std::isnan(values[1]));
  CHECK(values[0] == 1.0F);
  values[1] = 1.0F;
  drill->before(submission_of("weight", values));
  CHECK(values == std::vector<float>(3, 1.0F));
}

TEST_CASE("Injector: one bit of a replica flips, once, on the rank that is meant") {
  Drill drill("flip:rank=1,tensor=exp_avg of w,step=2,element=1,bit=0;flip:rank=0,tensor=w");
  std::vector<float> values(2, 1.0F);
  CHECK(drill->replica_tensors(1).empty());
  CHECK(!drill.plant_in("exp_avg of w", values, 1));
  CHECK(drill->replica_tensors(2) == std::vector<std::string>{"exp_avg of w"});
  CHECK(!drill.plant_in("w", values, 2));
  CHECK(drill.plant_in("exp_avg of w", values, 2));
  CHECK(values[0] == 1.0F);
  CHECK(std::bit_cast<std::uint32_t>(values[1]) == (std::bit_cast<std::uint32_t>(1.0F) ^ 1U));
  CHECK(drill->replica_tensors(3).empty());
  CHECK(!drill.plant_in("exp_avg of w", values, 3));
}

TEST_CASE("Injector: a bit that a tensor has not flips nowhere") {
  Drill drill("flip:rank=1,tensor=w,bit=32;flip:rank=1,tensor=w,element=2");
  std::vector<float> values(2, 1.0F);
  CHECK(!drill.plant_in("w", values, 1));
  CHECK(values == std::vector<float>(2, 1.0F));
}

TEST_CASE("Injector: a drift goes on from step to step, in the first tensor alone") {
  Drill drill("drift:rank=1,tensor=w,step=2,factor=2");
  std::vector<float> first(2, 1.0F);
  std::vector<float> second(2, 1.0F);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    drill.plant_in("w1", first, step);
    drill.plant_in("w2", second, step);
  }
  CHECK(first == std::vector<float>(2, 4.0F));
  CHECK(second == std::vector<float>(2, 1.0F));
}

TEST_CASE("Injector: a flip in a result finds its element in the piece that has it") {
  Drill drill("flip:rank=1,tensor=grad,element=5,where=result");
  std::vector<float> values(4, 1.0F);
  run(drill, sum_of("grad", 0, values), values);
  CHECK(values == std::vector<float>(4, 1.0F));
  run(drill, sum_of("grad", 4, values), values);
  CHECK(values[1] != 1.0F);
  CHECK(values[0] == 1.0F);
}

TEST_CASE("Injector: sums of the tensor are wrong from their step on, and of no other") {
  Drill drill("sum:rank=1,tensor=grad,step=2");
  std::vector<float> ours(4, 1.0F);
  const std::vector<float> theirs(4, 2.0F);
  const auto sum = [&](std::string_view name) {
    std::vector<float> out(4);
    const Segment segment{std::as_bytes(std::span(ours)).data(),
                          std::as_writable_bytes(std::span(out)).data(), 4 * sizeof(float)};
    Work work;
    work.segments = {&segment, 1};
    const Bundle bundle = sum_of(name, 0, out);
    drill->during(bundle, work);
    const std::array<const void*, 2> inputs = {theirs.data(), ours.data()};
    drill.sums->reduce({}, inputs, out.data(), 4);
    drill->after(bundle, work);
    return out;
  };
  const std::vector<float> right(4, 3.0F);
  CHECK(sum("grad") == right);
  drill.steps = 1;
  CHECK(sum("bias") == right);
  for (int i = 0; i < 2; ++i) {
    for (const float value : sum("grad")) CHECK(value != 3.0F);
  }
  drill.steps = 0;
  CHECK(sum("grad") == right);
}

TEST_CASE("Injector: sums that no kernel computed where a drill reaches are warned of once") {
  std::string told;
  set_log(LogLevel::kWarning, [&](LogLevel, std::string_view line) { told += line; });
  Drill drill("sum:rank=1,tensor=grad,step=2");
  std::vector<float> values(4, 1.0F);
  const Segment segment{nullptr, std::as_writable_bytes(std::span(values)).data(),
                        values.size() * sizeof(float)};
  Work work;
  work.segments = {&segment, 1};
  const auto pass = [&](std::string_view name) {
    told.clear();
    const Bundle bundle = sum_of(name, 0, values);
    drill->during(bundle, work);
    drill->after(bundle, work);
    return told;
  };
  CHECK(pass("grad").empty());
  drill.steps = 1;
  CHECK(pass("bias").empty());
  CHECK(pass("grad").find("planted nothing in \"grad\" so far") != std::string::npos);
  CHECK(pass("grad").empty());
  drill->report_unplanted();
  CHECK(told.find("no sum that a drill reaches") != std::string::npos);
  set_log(LogLevel::kWarning, {});
}

TEST_CASE("Injector: a work that fails leaves neither wrong sums nor a flip behind") {
  Drill drill("sum:rank=1,tensor=grad;flip:rank=1,tensor=grad,where=result");
  const std::vector<float> ones(4, 1.0F);
  std::vector<float> out(4, 1.0F);
  const Segment segment{nullptr, std::as_writable_bytes(std::span(out)).data(),
                        out.size() * sizeof(float)};
  Work work;
  work.segments = {&segment, 1};
  const Bundle bundle = sum_of("grad", 0, out);
  drill->during(bundle, work);
  drill->after_failure(bundle, work);
  CHECK(out == ones);
  const std::array<const void*, 2> inputs = {ones.data(), ones.data()};
  drill.sums->reduce({}, inputs, out.data(), 4);
  CHECK(out == std::vector<float>(4, 2.0F));
}

TEST_CASE("PeerEnds: connections are known by the rank at their other end") {
  PeerEnds ends;
  const auto [first, first_end] = connected_sockets();
  const auto [second, second_end] = connected_sockets();
  ends.add(2, first.get());
  ends.add(3, second.get());
  CHECK(ends.has(2, first.get()));
  CHECK(ends.has(3, second.get()));
  CHECK_FALSE(ends.has(3, first.get()));
  CHECK_FALSE(ends.has(2, first_end.get()));
}

TEST_CASE("Injector: a slow rank sleeps before each operation from its step on") {
  Drill drill("slow:rank=1,seconds=0.02,step=2");
  std::vector<float> values(1, 1.0F);
  const TimePoint begin = now();
  drill->before(submission_of("a", values));
  CHECK(now() - begin < std::chrono::milliseconds(20));
  drill.steps = 1;
  drill->before(submission_of("a", values));
  drill->before(submission_of("b", values));
  CHECK(now() - begin >= std::chrono::milliseconds(40));
}

}  // namespace ronde
