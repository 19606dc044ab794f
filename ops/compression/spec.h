// How users name a compression: "int8", "int4:block=128,rounding=stochastic,seed=7", "auto", ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/status.h"

namespace ronde {

/// The codecs there are, in the order of registry.cc.
enum class CodecKind : std::uint8_t {
  kFp16,
  kBf16,
  kInt8,
  kInt4,
  kOnebit,
  kTopk,
  kRandomk,
  kPowersgd,
  kAuto  ///< Whichever of the others, or none, is predicted to be fastest: see auto/cost_model.h.
};

/// How many kinds there are, kAuto included.
inline constexpr std::size_t kCodecKinds = static_cast<std::size_t>(CodecKind::kAuto) + 1;

/// What an automatic choice may lose.
enum class Accuracy : std::uint8_t {
  kLossless,   ///< Nothing.
  kSafe,       ///< What 16 bits do not hold.
  kAggressive  ///< Anything that error feedback makes up for.
};

/// What error feedback keeps its elements in.
enum class ResidualFormat : std::uint8_t {
  kFp32,
  kBf16  ///< Rounded up or down at random, right on average, so that small additions are not lost.
};

/// A compression and its parameters. Equal on all ranks: it is negotiated as text.
struct CompressionSpec {
  CodecKind kind = CodecKind::kFp16;
  std::size_t block = 0;     ///< int8, int4, onebit: elements that share a scale.
  bool stochastic = false;   ///< int8, int4: rounds up or down at random, right on average.
  double ratio = 0;          ///< topk, randomk: the share of elements that travels.
  bool sampled = false;      ///< topk: about so many, by a threshold from a sample.
  double momentum = 0;       ///< topk: of momentum correction; 0 means none.
  bool nesterov = false;     ///< topk: of momentum correction.
  bool masking = true;       ///< topk: momentum of what was sent begins anew.
  std::uint64_t warmup = 0;  ///< Steps before little is sent: dense; topk: ratio_at().
  std::size_t rank = 0;      ///< powersgd: columns of each factor.
  double clip = 0;           ///< topk: largest norm of the result; 0 means any.
  Accuracy accuracy = Accuracy::kSafe;  ///< auto: what it may choose.
  std::uint64_t seed = 0;               ///< Of stochastic rounding and of randomk.
  bool error_feedback = true;
  ResidualFormat residual = ResidualFormat::kFp32;

  bool operator==(const CompressionSpec&) const = default;
};

/// Largest block, in elements.
inline constexpr std::size_t kMaxBlock = 4096;

/// Largest rank of powersgd.
inline constexpr std::size_t kMaxRank = 64;

/// Reads `name[:key=value,...]`; registry.h has the names, keys and defaults.
/// Errors: kInvalidArgument with the value and what is allowed.
Result<CompressionSpec> parse_compression(std::string_view text);

/// What gradients travel as in a training that names `text`. Like parse_compression, but codecs
/// that send little begin with their warm-up unless `warmup` is given: a model changes fast at
/// first, and elements that wait would come too late. Errors: as parse_compression.
Result<CompressionSpec> training_compression(std::string_view text);

/// The same text for equal specs; leaves defaults out.
std::string to_string(const CompressionSpec& spec);

/// A canonical text as ranks agree on it after what is kept was loaded for the `load`-th time
/// since a warm-up was over: ranks that have not loaded as often find out before they run it.
/// 0 changes nothing, and so do codecs without a warm-up that ranks count together.
std::string since_load(const CompressionSpec& spec, std::uint64_t load);

/// What since_load() was given.
std::string_view without_load(std::string_view text) noexcept;

/// The facts of registry.h that most ask for.

/// A kind as users name it.
std::string_view codec_name(CodecKind kind) noexcept;

/// What a kind's name stands for without parameters.
CompressionSpec default_spec(CodecKind kind) noexcept;

/// Whether tensors travel dense in the first steps.
[[nodiscard]] bool begins_dense(const CompressionSpec& spec) noexcept;

/// Whether some elements of a tensor travel: see sparse/allreduce.h.
[[nodiscard]] bool is_sparse(CodecKind kind) noexcept;

/// Whether an allreduce sends a small part of what it is given, or may choose to.
[[nodiscard]] bool sends_little(const CompressionSpec& spec) noexcept;

/// Elements of the smallest tensor that a codec is for where nobody names the tensor. Codecs that
/// send little harm small tensors the most, and most of a model's bytes are in large ones: 64 KiB
/// of fp32 then, as BytePS's BYTEPS_MIN_COMPRESS_BYTES.
[[nodiscard]] std::size_t fewest_elements(const CompressionSpec& spec) noexcept;

/// Ok where it is an allreduce of a floating type, by sum or average: what can be compressed.
/// Errors: kInvalidArgument with the value and what is allowed.
Status check_compressible(Collective kind, DType dtype, ReduceOp op);

}  // namespace ronde
