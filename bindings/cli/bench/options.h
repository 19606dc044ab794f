// The options of `ronde bench`, and the models that it replays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"

namespace ronde::bench {

/// The kind of measurement.
enum class Mode : std::uint8_t {
  kSweep,        ///< One tensor, over a list of sizes: raw group, named, peers, memory roofline.
  kMany,         ///< Many small named tensors submitted together.
  kTune,         ///< All algorithms of all collectives, for a tuning file.
  kReplay,       ///< A model's gradients submitted together, against one buffer of as many bytes.
  kCompression,  ///< One matrix, dense and compressed, over a list of sizes.
  kStep,         ///< A training step with a model's gradients, by priority and without.
};

/// The kind of calls in a sweep.
enum class Calls : std::uint8_t { kBoth, kRaw, kNamed, kAsync };

/// All options, valid.
struct Options {
  Collective kind = Collective::kAllreduce;
  Mode mode = Mode::kSweep;
  Calls calls = Calls::kBoth;
  int np = 2;
  std::vector<std::size_t> sizes;  ///< Bytes.
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;    ///< Or kAverage or kAdasum.
  std::string backend;             ///< Empty: the setting, else auto.
  std::string algorithm;           ///< Likewise.
  std::string compression;         ///< kCompression: as --compression of `ronde run`.
  std::vector<std::string> peers;  ///< "mpi", "gloo".
  bool shared = false;             ///< Ronde's buffers in memory that the ranks share.
  std::string json;                ///< Path, or empty.
  int repetitions = 30;            ///< At least kLeastRepetitions.
  std::size_t count = 160;         ///< kMany: tensors.
  std::size_t bytes = 4096;        ///< kMany: of each.
  std::string model = "resnet50";  ///< kReplay, kStep.
  std::string tune;                ///< kTune: the file.
  std::string timeline;            ///< kMany, kReplay: also measured while this is recorded.
};

inline constexpr int kLeastRepetitions = 20;

/// The options as they are written on the command line.
struct OptionTexts {
  std::string collective = "allreduce";
  std::string mode = "both";
  std::string sizes;  ///< Empty: what suits the mode.
  std::string dtype = "float32";
  std::string op = "sum";
  std::string peers;
  std::string left_out = {};  ///< Those of `peers` that are not measured.
  std::string bytes = "4K";
};

/// The collective of this name that has data to move or ranks to wait for: all but join.
/// Errors: kInvalidArgument naming the value and what is allowed.
Result<Collective> parse_data_collective(std::string_view text);

/// "4", "64K", "16M", "1G" in bytes. Errors: kInvalidArgument naming the text.
Result<std::size_t> parse_bytes(std::string_view text);

/// Words between commas; no empty ones.
std::vector<std::string> split_list(std::string_view text);

/// Puts the parsed texts into `options`, whose plain fields the command line has set.
/// Errors: kInvalidArgument naming the option, its value and what is allowed.
Result<Options> complete(Options options, const OptionTexts& texts);

/// Shapes of a model's parameters in the order of its layers; empty for an unknown model.
/// "resnet50": 161 tensors, 25,557,032 elements.
std::vector<Shape> model_shapes(std::string_view model);

/// A peer that cannot be measured here.
struct MissingPeer {
  std::string name;
  std::string why;
};

/// The `peers` that cannot run on this host. Starts mpirun for a moment if "mpi" is one of them.
/// Threads: only one may exist.
std::vector<MissingPeer> missing_peers(const std::vector<std::string>& peers, const Config& config);

}  // namespace ronde::bench
