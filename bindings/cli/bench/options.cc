#include "bindings/cli/bench/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/join_text.h"
#include "ops/compression/spec.h"

namespace ronde::bench {
namespace {

Status not_allowed(std::string_view option, std::string_view value, std::string_view allowed) {
  return {Code::kInvalidArgument,
          fmt::format("{} \"{}\" is not valid; allowed: {}", option, value, allowed)};
}

Status set_mode(Options& options, std::string_view text) {
  if (text == "many") {
    options.mode = Mode::kMany;
  } else if (text == "replay") {
    options.mode = Mode::kReplay;
  } else if (text == "step") {
    options.mode = Mode::kStep;
  } else if (text == "raw") {
    options.calls = Calls::kRaw;
  } else if (text == "named") {
    options.calls = Calls::kNamed;
  } else if (text == "async") {
    options.calls = Calls::kAsync;
  } else if (text != "both") {
    return not_allowed("--mode", text, "both, raw, named, async, many, replay, step");
  }
  return {};
}

std::string_view default_sizes(Mode mode) {
  if (mode == Mode::kTune) return "1K,4K,16K,64K,256K,1M,4M,16M";
  return mode == Mode::kCompression ? "64K,1M,16M" : "4,1K,64K,1M,16M";
}

Status set_sizes(Options& options, std::string_view text) {
  if (text.empty()) text = default_sizes(options.mode);
  for (const std::string& word : split_list(text)) {
    RONDE_ASSIGN_OR_RETURN(const std::size_t bytes, parse_bytes(word));
    const std::size_t element = size_of(options.dtype);
    if (bytes == 0 || bytes % element != 0) {
      return not_allowed("--sizes", word,
                         fmt::format("multiples of {} bytes, one element of {}, above 0", element,
                                     to_string(options.dtype)));
    }
    options.sizes.push_back(bytes);
  }
  return options.sizes.empty() ? not_allowed("--sizes", text, "a list such as 4,1K,16M") : Status();
}

/// Other operations than sums are of floating types whose results the trials know.
Status check_op(const Options& options) {
  const std::string_view op = to_string(options.op);
  constexpr std::array kOps = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kAdasum};
  if (std::find(kOps.begin(), kOps.end(), options.op) == kOps.end()) {
    return not_allowed("--op", op, "sum, average, adasum");
  }
  if (options.op == ReduceOp::kSum) return {};
  if (!traits_of(options.kind).reduces || !is_defined(options.op, options.kind)) {
    return not_allowed("--op", op, fmt::format("sum with {}", to_string(options.kind)));
  }
  const bool known = is_floating(options.dtype) && !is_float8(options.dtype);
  if (!known || !is_defined(options.op, options.dtype)) {
    return not_allowed("--op", op, fmt::format("sum with {}", to_string(options.dtype)));
  }
  if (options.mode == Mode::kTune || options.mode == Mode::kCompression) {
    return not_allowed("--op", op, "sum with --tune and --compression");
  }
  return {};
}

Status check(const Options& options) {
  if (options.np < 1) return not_allowed("-np", fmt::to_string(options.np), "1 or more");
  if (options.repetitions < kLeastRepetitions) {
    return not_allowed("--repetitions", fmt::to_string(options.repetitions), "20 or more");
  }
  if (options.count == 0) return not_allowed("--count", "0", "1 or more");
  if (options.mode == Mode::kTune && options.np < 2) {
    return not_allowed("-np", fmt::to_string(options.np), "2 or more with --tune");
  }
  if (options.mode != Mode::kSweep && options.kind != Collective::kAllreduce) {
    return not_allowed("collective", to_string(options.kind),
                       "allreduce in modes many, replay and step, and with --compression");
  }
  if (options.mode == Mode::kCompression && options.dtype != DType::kFloat32) {
    return not_allowed("--dtype", to_string(options.dtype), "float32 with --compression");
  }
  RONDE_RETURN_IF_ERROR(check_op(options));
  const bool needs_model = options.mode == Mode::kReplay || options.mode == Mode::kStep;
  if (needs_model && model_shapes(options.model).empty()) {
    return not_allowed("--model", options.model, "resnet50");
  }
  for (const std::string& peer : options.peers) {
    if (peer != "mpi" && peer != "gloo") return not_allowed("--peers", peer, "mpi, gloo");
  }
  return {};
}

}  // namespace

Result<Collective> parse_data_collective(std::string_view text) {
  std::vector<std::string_view> allowed;
  for (const CollectiveTraits& each : kCollectives) {
    if (each.value == Collective::kJoin || each.has_indices()) continue;
    if (each.name == text) return each.value;
    allowed.push_back(each.name);
  }
  return Status(Code::kInvalidArgument, fmt::format("collective \"{}\" is not valid; allowed: {}",
                                                    text, join_text(allowed, ", ")));
}

Result<std::size_t> parse_bytes(std::string_view text) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  constexpr std::string_view kUnits = "KMG";
  const std::size_t power = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  const bool valid = error == std::errc() && (unit.empty() || power != std::string_view::npos);
  const unsigned shift = unit.empty() ? 0 : 10 * (static_cast<unsigned>(power) + 1);
  if (!valid || value > (std::size_t{1} << 40 >> shift)) {
    return not_allowed("size", text, "a number of bytes, with K, M or G (powers of 1024)");
  }
  return value << shift;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) words.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return words;
}

Result<Options> complete(Options options, const OptionTexts& texts) {
  RONDE_ASSIGN_OR_RETURN(options.kind, parse_data_collective(texts.collective));
  RONDE_ASSIGN_OR_RETURN(options.dtype, parse_dtype(texts.dtype));
  RONDE_ASSIGN_OR_RETURN(options.op, parse_reduce_op(texts.op));
  RONDE_ASSIGN_OR_RETURN(options.bytes, parse_bytes(texts.bytes));
  RONDE_RETURN_IF_ERROR(set_mode(options, texts.mode));
  if (!options.tune.empty()) options.mode = Mode::kTune;
  if (!options.compression.empty()) {
    RONDE_RETURN_IF_ERROR(parse_compression(options.compression).status());
    options.mode = Mode::kCompression;
  }
  RONDE_RETURN_IF_ERROR(set_sizes(options, texts.sizes));
  options.peers = split_list(texts.peers);
  RONDE_RETURN_IF_ERROR(check(options));
  const std::vector<std::string> left_out = split_list(texts.left_out);
  std::erase_if(options.peers,
                [&](const std::string& peer) { return std::ranges::count(left_out, peer) > 0; });
  return options;
}

namespace {

/// He et al., "Deep Residual Learning for Image Recognition", 2015, table 1: the weights of each
/// convolution, then the scale and the shift of its normalization.
std::vector<Shape> resnet50_shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](std::int64_t out, std::int64_t in, std::int64_t side) {
    shapes.insert(shapes.end(), {{out, in, side, side}, {out}, {out}});
  };
  struct Stage {
    std::int64_t width;
    int blocks;
  };
  add(64, 3, 7);
  std::int64_t in = 64;
  for (const auto& [width, blocks] : {Stage{64, 3}, Stage{128, 4}, Stage{256, 6}, Stage{512, 3}}) {
    const std::int64_t out = 4 * width;
    for (int block = 0; block < blocks; ++block) {
      add(width, in, 1);
      add(width, width, 3);
      add(out, width, 1);
      if (block == 0) add(out, in, 1);
      in = out;
    }
  }
  shapes.insert(shapes.end(), {{1000, in}, {1000}});
  return shapes;
}

}  // namespace

std::vector<Shape> model_shapes(std::string_view model) {
  return model == "resnet50" ? resnet50_shapes() : std::vector<Shape>();
}

}  // namespace ronde::bench
