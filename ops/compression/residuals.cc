#include "ops/compression/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "core/base/log.h"

namespace ronde {
namespace {

float* zeros(std::size_t count) {
  auto* memory = static_cast<float*>(std::calloc(std::max<std::size_t>(1, count), sizeof(float)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void Residual::Free::operator()(float* memory) const noexcept { std::free(memory); }

Residual::Residual(std::size_t count) : count_(count), values_(zeros(count)) {}

void Residual::add_to(std::span<float> values, std::size_t begin) const {
  MutexLock lock(mutex_);
  const float* from = values_.get() + begin;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += from[i];
}

void Residual::assign(std::span<const float> values, std::size_t begin) {
  MutexLock lock(mutex_);
  std::copy(values.begin(), values.end(), values_.get() + begin);
}

std::vector<float> Residual::values() const {
  MutexLock lock(mutex_);
  return {values_.get(), values_.get() + count_};
}

std::uint64_t Residual::next_step() {
  MutexLock lock(mutex_);
  return steps_++;
}

std::uint64_t Residual::steps() const {
  MutexLock lock(mutex_);
  return steps_;
}

void Residual::set_steps(std::uint64_t steps) {
  MutexLock lock(mutex_);
  steps_ = steps;
}

std::shared_ptr<Residual> ResidualStore::find(int set, const std::string& name, std::size_t count) {
  MutexLock lock(mutex_);
  const Key key{set, name};
  const auto known = residuals_.find(key);
  if (known != residuals_.end()) {
    if (known->second->count() == count) return known->second;
    log(LogLevel::kWarning,
        "\"{}\" has {} elements now and had {}: what compression had left over of it is dropped",
        name, count, known->second->count());
    bytes_ -= known->second->count() * sizeof(float);
    residuals_.erase(known);
  }
  const std::size_t size = count * sizeof(float);
  if (limit_bytes_ != 0 && bytes_ + size > limit_bytes_) {
    if (!warned_) {
      log(LogLevel::kWarning,
          "residuals of compression take {} of {} bytes; \"{}\" and others go without", bytes_,
          limit_bytes_, name);
    }
    warned_ = true;
    return nullptr;
  }
  try {
    auto made = std::make_shared<Residual>(count);
    residuals_.emplace(key, made);
    bytes_ += size;
    return made;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::vector<SavedResidual> ResidualStore::save() const {
  MutexLock lock(mutex_);
  std::vector<SavedResidual> saved;
  for (const auto& [key, residual] : residuals_) {
    saved.push_back({key.first, key.second, residual->steps(), residual->values()});
  }
  return saved;
}

Status ResidualStore::load(std::vector<SavedResidual> saved) {
  std::map<Key, std::shared_ptr<Residual>> loaded;
  std::size_t bytes = 0;
  for (const SavedResidual& one : saved) {
    auto residual = std::make_shared<Residual>(one.values.size());
    residual->assign(one.values, 0);
    residual->set_steps(one.steps);
    bytes += one.values.size() * sizeof(float);
    if (!loaded.emplace(Key{one.set, one.name}, std::move(residual)).second) {
      return {Code::kInvalidArgument,
              fmt::format("two residuals of \"{}\" in process set {}", one.name, one.set)};
    }
  }
  MutexLock lock(mutex_);
  residuals_ = std::move(loaded);
  bytes_ = bytes;
  return {};
}

std::size_t ResidualStore::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace ronde
