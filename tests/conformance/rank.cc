#include "tests/conformance/rank.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/bytes.h"
#include "ops/kernels/factory.h"

namespace ronde::test {
namespace {

std::unique_ptr<Executor> executor_over(ConformanceFixture& fixture, Backend& backend,
                                        const GroupSpec& group, Exchange& exchange,
                                        bool finds_nonfinite) {
  auto plane = backend.open(group, exchange);
  if (!plane.ok()) FAIL("open: " << plane.status().to_string());
  ExecutorOptions options;
  options.host.whole = std::move(plane).value();
  options.kernels = fixture.kernels();
  options.algorithm = fixture.algorithm();
  options.rank = group.rank;
  options.size = group.size();
  options.finds_nonfinite = finds_nonfinite;
  return fixture.make_executor(std::move(options), group, exchange);
}

std::string digest(const Bytes& bytes) {
  return std::to_string(std::hash<std::string_view>{}(as_text(bytes)));
}

}  // namespace

std::unique_ptr<Executor> ConformanceFixture::make_executor(ExecutorOptions options,
                                                            const GroupSpec&, Exchange&) const {
  auto executor = create_executor(std::move(options));
  if (!executor.ok()) FAIL("create_executor: " << executor.status().to_string());
  return std::move(executor).value();
}

std::shared_ptr<const ReduceKernels> ConformanceFixture::kernels() const {
  return create_kernels();
}

Rank::Rank(ConformanceFixture& fixture, Backend& backend, const GroupSpec& group,
           Exchange& exchange, bool finds_nonfinite)
    : rank_(group.rank),
      size_(group.size()),
      same_bits_(fixture.same_bits()),
      exchange_(exchange),
      abort_(group.abort),
      executor_(executor_over(fixture, backend, group, exchange, finds_nonfinite)) {}

Bytes Rank::run_one(Bundle bundle, const Bytes& in, Place place, std::size_t count,
                    double weight) const {
  Bytes out = in;
  BundleTensor tensor;
  tensor.name = "tensor";
  tensor.weight = weight;
  tensor.shape = {static_cast<std::int64_t>(count)};
  tensor.in = place == Place::kIn ? out.data() : in.data();
  if (place == Place::kOut) std::fill(out.begin(), out.end(), std::byte{0xcd});
  tensor.out = out.data();
  bundle.tensors = {tensor};
  const Status status = run(bundle);
  if (!status.ok()) FAIL("rank " << rank_ << ": " << status.to_string());
  return out;
}

void Rank::expect_no(const std::string& problem, const std::string& where) const {
  if (!problem.empty()) {
    FAIL_CHECK("rank " << rank_ << " of " << size_ << ", " << where << ": " << problem);
  }
}

void Rank::expect_same_bits(const Bytes& bytes, const std::string& where) const {
  if (!same_bits_) return;
  const std::vector<std::string> all = share(digest(bytes));
  if (std::any_of(all.begin(), all.end(), [&](const auto& one) { return one != all.front(); })) {
    FAIL_CHECK(where << ": ranks hold different bits");
  }
}

std::vector<std::string> Rank::share(const std::string& mine) const {
  auto all = exchange_.allgather(mine);
  if (!all.ok()) FAIL("exchange: " << all.status().to_string());
  return std::move(all).value();
}

void on_ranks(ConformanceFixture& fixture, const std::function<void(const Rank&)>& body) {
  on_ranks(fixture, fixture.rank_counts(), body);
}

namespace {

void on_groups(ConformanceFixture& fixture, const std::vector<int>& counts, bool finds_nonfinite,
               const std::function<void(const Rank&)>& body) {
  for (const int ranks : counts) {
    fixture.run(ranks, [&](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
      const Rank rank(fixture, backend, group, exchange, finds_nonfinite);
      body(rank);
      rank.share("done");  // no rank closes the group while another still uses it
    });
  }
}

}  // namespace

void on_ranks(ConformanceFixture& fixture, const std::vector<int>& counts,
              const std::function<void(const Rank&)>& body) {
  on_groups(fixture, counts, false, body);
}

void on_watching_ranks(ConformanceFixture& fixture, const std::function<void(const Rank&)>& body) {
  std::vector<int> counts = fixture.rank_counts();
  std::erase_if(counts, [](int ranks) { return ranks > 5; });
  on_groups(fixture, counts, true, body);
}

Bundle bundle_of(Collective kind, DType dtype, ReduceOp op, int root) {
  Bundle bundle;
  bundle.kind = kind;
  bundle.dtype = dtype;
  bundle.op = op;
  bundle.root = root;
  return bundle;
}

BundleTensor in_place(std::vector<float>& values, const DeviceEventPtr& ready,
                      DeviceEventPtr* complete) {
  BundleTensor tensor;
  tensor.name = "tensor";
  tensor.in = tensor.out = values.data();
  tensor.shape = {static_cast<std::int64_t>(values.size())};
  tensor.ready = ready.get();
  tensor.complete = complete;
  return tensor;
}

Outputs::Outputs(DType dtype)
    : dtype_(dtype),
      allocate_([this](std::size_t index, const Shape& shape) { return make(index, shape); }) {}

void Outputs::serve(BundleTensor& tensor, std::size_t index) {
  if (made_.size() <= index) made_.resize(index + 1);
  tensor.out = nullptr;
  tensor.allocate = &allocate_;
  tensor.index = index;
}

Result<void*> Outputs::make(std::size_t index, const Shape& shape) {
  Made& made = made_.at(index);
  made.bytes.assign(static_cast<std::size_t>(element_count(shape)) * size_of(dtype_),
                    std::byte{0xcd});
  made.shape = shape;
  made.asked = true;
  return static_cast<void*>(made.bytes.data());
}

}  // namespace ronde::test
