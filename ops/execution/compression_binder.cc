#include "ops/execution/compression_binder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/compression/registry.h"

namespace ronde {
namespace {

// After the name of the tensor that something is kept for.
constexpr const char* kMomentum = "#momentum";
constexpr const char* kBasis = "#basis";

/// Elements of a row of what may be a matrix.
std::size_t columns_of(const Shape& shape) {
  if (shape.size() < 2 || shape[0] == 0) return 0;
  return static_cast<std::size_t>(element_count(shape) / shape[0]);
}

/// The key of a tensor's residual; empty if it keeps none.
std::string key_of(const Bundle& bundle, std::size_t index) {
  return index < bundle.keys.size() ? bundle.keys[index] : std::string();
}

std::size_t count_of(const BundleTensor& tensor) {
  return static_cast<std::size_t>(element_count(tensor.shape));
}

/// Not of a rank that has joined.
bool has_data(const BundleTensor& tensor) { return tensor.in != nullptr; }

/// FNV-1a: the same on all ranks.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdULL;
}

}  // namespace

Result<bool> CompressionBinder::travels_dense(const Bundle& bundle, const std::string& compression,
                                              NumberExchange& exchange, const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const Scheme* scheme, look_up(compression));
  // All ranks decide this alike, by the bundle and those of end_warm_up().
  if (!begins_dense(scheme->spec) || is_warm(bundle, compression)) return false;
  std::vector<std::shared_ptr<Residual>> residuals;
  std::int64_t passed = -1;  // the fewest steps of any tensor; -1: this rank keeps nothing
  for (std::size_t i = 0; i < bundle.tensors.size(); ++i) {
    auto residual = residual_of(bundle, i, scheme->spec);
    if (!residual) continue;
    const auto steps = static_cast<std::int64_t>(residual->steps());
    passed = residuals.empty() ? steps : std::min(passed, steps);
    residuals.push_back(std::move(residual));
  }
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange.allgather({&passed, 1}, abort));
  const std::int64_t most = *std::max_element(all.begin(), all.end());
  if (most < 0 || most >= static_cast<std::int64_t>(scheme->spec.warmup)) {
    end_warm_up(bundle, compression);
    return false;
  }
  for (const auto& residual : residuals) residual->next_step();
  return true;
}

bool CompressionBinder::wants_losses(const CompressedWork& compressed) const {
  return options_.loss_steps != 0 && options_.residuals != nullptr &&
         std::any_of(compressed.tensors().begin(), compressed.tensors().end(),
                     [&](const CompressedTensor& tensor) {
                       return tensor.residual && tensor.step % options_.loss_steps == 0;
                     });
}

void CompressionBinder::note_losses(const Bundle& bundle, const Work& work,
                                    const CompressedWork& compressed, EventSink* events) const {
  if (options_.loss_steps == 0 || options_.residuals == nullptr) return;
  for (std::size_t i = 0; i < compressed.tensors().size(); ++i) {
    if (compressed.tensors()[i].step % options_.loss_steps != 0) continue;
    const auto loss = compressed.loss(i, work);
    if (!loss) continue;
    const std::string& name = bundle.keys[i];
    options_.residuals->note(options_.set, name, *loss);
    if (events == nullptr || loss->result == 0) continue;
    events->counter("compression error of " + name, loss->lost / loss->result);
  }
}

Result<const Scheme*> CompressionBinder::look_up(const std::string& text) {
  const auto found = known_.find(text);
  if (found != known_.end()) return &found->second;
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse_compression(without_load(text)));
  return &known_.emplace(text, spec).first->second;
}

std::shared_ptr<Residual> CompressionBinder::residual_of(const Bundle& bundle, std::size_t index,
                                                         const CompressionSpec& spec) const {
  const BundleTensor& tensor = bundle.tensors[index];
  const std::string key = key_of(bundle, index);
  const bool keeps = spec.error_feedback && traits_of(bundle.kind).reduces;
  if (!keeps || options_.residuals == nullptr || key.empty() || !has_data(tensor)) return {};
  return options_.residuals->find(options_.set, key, count_of(tensor), spec.residual);
}

bool CompressionBinder::is_warm(const Bundle& bundle, const std::string& compression) const {
  for (std::size_t i = 0; i < bundle.tensors.size(); ++i) {
    const std::string key = key_of(bundle, i);
    if (key.empty()) continue;  // nothing is kept of it, on any rank
    const auto found = warm_.find(key);
    if (found == warm_.end() || found->second.count != count_of(bundle.tensors[i]) ||
        found->second.compression != compression) {
      return false;
    }
  }
  return true;
}

void CompressionBinder::end_warm_up(const Bundle& bundle, const std::string& compression) {
  for (std::size_t i = 0; i < bundle.tensors.size(); ++i) {
    const std::string key = key_of(bundle, i);
    if (!key.empty()) warm_[key] = {count_of(bundle.tensors[i]), compression};
  }
  if (options_.residuals != nullptr) options_.residuals->end_warm_up(options_.set);
}

Result<CompressedWork> CompressionBinder::prepare(const Bundle& bundle,
                                                  const std::string& compression) {
  RONDE_ASSIGN_OR_RETURN(const Scheme* scheme, look_up(compression));
  std::vector<CompressedTensor> tensors;
  for (std::size_t i = 0; i < bundle.tensors.size(); ++i) {
    tensors.push_back(prepare_tensor(bundle, i, scheme->spec));
  }
  ++bundles_;
  return CompressedWork(*scheme, std::move(tensors));
}

CompressedTensor CompressionBinder::prepare_tensor(const Bundle& bundle, std::size_t index,
                                                   const CompressionSpec& spec) {
  const BundleTensor& tensor = bundle.tensors[index];
  const std::string key = key_of(bundle, index);
  CompressedTensor prepared;
  prepared.dtype = bundle.dtype;
  std::uint64_t step = bundles_;
  prepared.residual = residual_of(bundle, index, spec);
  if (prepared.residual) step = prepared.residual->next_step();
  if (prepared.residual && spec.momentum > 0) {
    prepared.momentum = options_.residuals->find(options_.set, key + kMomentum,
                                                 prepared.residual->count(), spec.residual);
    if (prepared.momentum) prepared.momentum->next_step();
  }
  if (codec_row(spec.kind).payload == Payload::kFactors) {
    prepared.columns = columns_of(tensor.shape);
    if (prepared.columns > 0 && options_.residuals != nullptr && !key.empty() && has_data(tensor)) {
      prepared.basis =
          options_.residuals->find(options_.set, key + kBasis, prepared.columns * spec.rank);
    }
  }
  prepared.step = step;
  prepared.turn = hash_of(key) >> 32;
  const std::uint64_t where = mix(hash_of(key), static_cast<std::uint64_t>(options_.rank));
  prepared.key = mix(mix(spec.seed, step), where);
  prepared.common_key = mix(mix(spec.seed, step), hash_of(key));
  return prepared;
}

}  // namespace ronde
