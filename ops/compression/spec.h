// A compression as users name it: "int8", "int4:block=128,rounding=stochastic,seed=7", "auto", ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "core/base/status.h"

namespace ronde {

/// The codecs there are. registry.h has their rows in this order.
enum class CodecKind : std::uint8_t {
  kFp16,
  kBf16,
  kInt8,
  kInt4,
  kOnebit,
  kTopk,
  kRandomk,
  kPowersgd,
  kAuto  ///< The codec that is predicted to be fastest, or none: see auto/cost_model.h.
};

/// The number of kinds, with kAuto.
inline constexpr std::size_t kCodecKinds = static_cast<std::size_t>(CodecKind::kAuto) + 1;

/// The loss that an automatic choice may bring.
enum class Accuracy : std::uint8_t {
  kLossless,   ///< Nothing.
  kSafe,       ///< Rounding to 16 bits.
  kAggressive  ///< Any loss that error feedback makes up for.
};

/// The format of the elements that error feedback keeps.
enum class ResidualFormat : std::uint8_t {
  kFp32,
  kBf16  ///< Rounded up or down at random, right on average: small additions are not lost.
};

/// A compression and its parameters. Equal on all ranks: it is negotiated as text.
struct CompressionSpec {
  CodecKind kind = CodecKind::kFp16;
  std::size_t block = 0;     ///< int8, int4, onebit: elements that share a scale.
  bool stochastic = false;   ///< int8, int4: rounds up or down at random, right on average.
  double ratio = 0;          ///< topk, randomk: the share of elements that travels.
  bool sampled = false;      ///< topk: selects by a threshold from a sample.
  double momentum = 0;       ///< topk: momentum correction; 0 means none.
  bool nesterov = false;     ///< topk: Nesterov's form of it.
  bool masking = true;       ///< topk: elements that were sent lose their momentum.
  std::uint64_t warmup = 0;  ///< Steps of the warm-up: all elements travel; topk: see ratio_at().
  std::size_t rank = 0;      ///< powersgd: columns of each factor.
  double clip = 0;           ///< topk: largest norm of the result; 0 means any.
  Accuracy accuracy = Accuracy::kSafe;  ///< auto: the loss that it may bring.
  std::uint64_t seed = 0;               ///< Stochastic rounding, randomk, powersgd.
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

/// The compression of gradients in a training that names `text`. Like parse_compression, but codecs
/// that send little begin with their warm-up unless `warmup` is given: a model changes fast at
/// first, and elements that wait would come too late. Errors: as parse_compression.
Result<CompressionSpec> training_compression(std::string_view text);

/// The spec as text, without defaults. Equal specs have equal texts.
std::string to_string(const CompressionSpec& spec);

/// The canonical text that ranks agree on, marked with how many loads of residuals have voided an
/// agreement on the end of a warm-up. Ranks with another number of loads get a mismatch error.
/// Without a mark for 0, and for codecs whose ranks do not agree on a warm-up.
std::string since_load(const CompressionSpec& spec, std::uint64_t load);

/// The text without the mark of since_load().
std::string_view without_load(std::string_view text) noexcept;

/// The name of a kind, from its row in registry.h.
std::string_view codec_name(CodecKind kind) noexcept;

/// The spec that a kind's name stands for without parameters.
CompressionSpec default_spec(CodecKind kind) noexcept;

/// True if tensors travel dense in the first steps.
[[nodiscard]] bool begins_dense(const CompressionSpec& spec) noexcept;

/// True if selected elements of a tensor travel: see sparse/exchange.h.
[[nodiscard]] bool is_sparse(CodecKind kind) noexcept;

/// True if an allreduce sends a small share of its elements, or may choose to.
[[nodiscard]] bool sends_little(const CompressionSpec& spec) noexcept;

/// Elements of the smallest tensor that is compressed by default. Codecs that send little harm
/// small tensors the most, and large tensors have most of a model's bytes. They begin at 64 KiB of
/// fp32, as BytePS's BYTEPS_MIN_COMPRESS_BYTES.
[[nodiscard]] std::size_t fewest_elements(const CompressionSpec& spec) noexcept;

/// Ok for collectives that may be compressed, of floating types, by sum or average if they reduce.
/// Errors: kInvalidArgument with the value and what is allowed.
Status check_compressible(Collective kind, DType dtype, ReduceOp op);

/// Ok for codecs that tensors of `kind` may travel by: any in allreduces, those that round each
/// element in others. Errors: kInvalidArgument with the codec and what is allowed.
Status check_codec(Collective kind, const CompressionSpec& spec);

}  // namespace ronde
