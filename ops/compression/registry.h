// The registry of codecs. Texts, Python, `ronde doctor`, the documents and the library read a
// codec's row. Each codec defines its row beside its code; they are listed here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/ports/device_codecs.h"
#include "ops/compression/parameter.h"
#include "ops/compression/spec.h"

namespace ronde {

struct FrameKernels;

/// How the values of a codec travel.
enum class Payload : std::uint8_t {
  kNone,     ///< auto: another row is chosen.
  kFrames,   ///< All elements, rounded: quantised_allreduce().
  kList,     ///< Selected elements: sparse_allreduce().
  kFactors,  ///< Two thin matrices: low_rank_allreduce().
};

/// How a warm-up begins.
enum class WarmUpForm : std::uint8_t {
  kDense,   ///< Tensors travel dense; ranks agree when that ends.
  kStaged,  ///< The codec sends more of a tensor at first, and counts steps by itself.
};

/// The place of a codec among the choices of `auto`.
struct AutoPlace {
  Accuracy accuracy = Accuracy::kAggressive;  ///< The strictest class that allows it.
  int loss = 0;                               ///< Less lossy codecs are tried first.
};

/// The tensors of a prediction.
struct WireLoad {
  std::size_t width = 4;  ///< Bytes of an element.
  double low_rank = 1;    ///< Share of the elements that travel by powersgd of the default rank.
};

/// One codec. Threads: any; constant.
struct CodecRow {
  std::string_view name = {};                       ///< In texts: "topk".
  std::string_view title = {};                      ///< In names of Python's classes: "TopK".
  std::string_view summary = {};                    ///< A sentence without its full stop.
  CompressionSpec defaults = {};                    ///< The spec of the name without parameters.
  std::span<const CodecParameter> parameters = {};  ///< In the order in which texts write them.
  /// Says why allowed values do not go together; empty if they do. Null: all values do.
  std::string_view (*conflict)(const CompressionSpec& spec) = nullptr;

  Payload payload = Payload::kNone;
  bool sends_little = false;          ///< A small part of the bytes.
  bool draws = false;                 ///< All ranks draw the same elements at random.
  std::string_view cast = {};         ///< Frames are plain values of this type; else empty.
  std::uint64_t training_warmup = 0;  ///< Steps of the warm-up that training adds; 0: none.
  WarmUpForm warmup = WarmUpForm::kDense;

  double rounds = 1;  ///< Messages one after another, as a multiple of a dense allreduce's.
  /// Bytes that travel for each byte of fp32, both ways, counted as a dense allreduce's own.
  double (*wire_share)(const CompressionSpec& spec, const WireLoad& load) = nullptr;
  std::optional<AutoPlace> auto_place = {};  ///< Empty: `auto` never chooses it.

  std::optional<FrameFormat> device_format = {};  ///< The format of devices' frames.
  /// True if devices have kernels that select elements. Null: they have none.
  bool (*device_selects)(const CompressionSpec& spec) = nullptr;
  const FrameKernels* frames = nullptr;  ///< Of this CPU; null for payloads other than frames.
};

// Defined in codecs/, sparse/, low_rank/ and auto/.
extern const CodecRow kFp16Codec;
extern const CodecRow kBf16Codec;
extern const CodecRow kInt8Codec;
extern const CodecRow kInt4Codec;
extern const CodecRow kOnebitCodec;
/// The elements of largest magnitude. Source: Lin et al., "Deep Gradient Compression", ICLR 2018.
extern const CodecRow kTopkCodec;
/// Elements drawn at random, the same ones on all ranks. It learns too slowly for `auto`.
extern const CodecRow kRandomkCodec;
/// Matrices as products of two thin ones. Source: Vogels et al., "PowerSGD", NeurIPS 2019.
extern const CodecRow kPowersgdCodec;
/// Chooses among the other codecs.
extern const CodecRow kAutoCodec;

/// All codecs, in the order of CodecKind.
inline constexpr std::array kCodecRows{
    &kFp16Codec, &kBf16Codec,    &kInt8Codec,     &kInt4Codec, &kOnebitCodec,
    &kTopkCodec, &kRandomkCodec, &kPowersgdCodec, &kAutoCodec,
};
static_assert(kCodecRows.size() == kCodecKinds);

/// The row of a kind. Threads: any.
const CodecRow& codec_row(CodecKind kind) noexcept;

/// True for codecs that round each element to 4 to 16 bits, and for `auto`, which may choose one.
constexpr bool rounds(const CodecRow& row) noexcept {
  return row.payload == Payload::kNone || (row.payload == Payload::kFrames && !row.sends_little);
}

/// True if devices have kernels for a compression. Residuals of bf16 stay on the host.
[[nodiscard]] bool runs_on_devices(const CompressionSpec& spec) noexcept;

}  // namespace ronde
