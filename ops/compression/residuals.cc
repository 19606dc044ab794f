#include "ops/compression/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

#include "core/base/log.h"
#include "core/base/small_float.h"
#include "ops/memory/device_wait.h"

namespace ronde {
namespace {

constexpr std::size_t size_of(ResidualFormat format) {
  return format == ResidualFormat::kBf16 ? sizeof(std::uint16_t) : sizeof(float);
}

void* zeros(std::size_t count, std::size_t size) {
  void* const memory = std::calloc(std::max<std::size_t>(1, count), size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

/// Sixteen bits that look random and depend on step and element alone.
std::uint32_t random_bits(std::uint64_t step, std::size_t index) {
  std::uint32_t bits = static_cast<std::uint32_t>(step) * 0x9e3779b9U;
  bits = (bits ^ static_cast<std::uint32_t>(index)) * 0x85ebca6bU;
  bits = (bits ^ (bits >> 15)) * 0xc2b2ae35U;
  return bits >> 16;
}

/// Rounds to one of the two bfloat16 beside the value: the nearer is likelier. Values of bfloat16
/// stay the same, and finite values stay finite.
std::uint16_t round_at_random(float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits & 0x80000000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  constexpr std::uint32_t kInfinity = 0x7f800000U, kMost = 0x7f7f0000U;
  const std::uint32_t rounded = std::min(magnitude + random, kMost);
  return static_cast<std::uint16_t>((sign | (magnitude < kInfinity ? rounded : magnitude)) >> 16);
}

}  // namespace

void Residual::Free::operator()(void* memory) const noexcept { std::free(memory); }

Residual::Residual(std::size_t count, ResidualFormat format)
    : count_(count), format_(format), values_(zeros(count, size_of(format))) {}

std::size_t Residual::bytes() const noexcept { return count_ * size_of(format_); }

float* Residual::wide() const { return static_cast<float*>(values_.get()); }

std::uint16_t* Residual::narrow() const { return static_cast<std::uint16_t*>(values_.get()); }

void Residual::add_to(std::span<float> values, std::size_t begin) const {
  MutexLock lock(mutex_);
  if (format_ == ResidualFormat::kBf16) {
    const std::uint16_t* from = narrow() + begin;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += bfloat16_to_float(from[i]);
  } else {
    const float* from = wide() + begin;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += from[i];
  }
}

void Residual::assign(std::span<const float> values, std::size_t begin) {
  MutexLock lock(mutex_);
  zero_ = false;
  if (format_ == ResidualFormat::kFp32) {
    std::copy(values.begin(), values.end(), wide() + begin);
    return;
  }
  std::uint16_t* const to = narrow() + begin;
  const std::uint64_t step = steps_;
  for (std::size_t i = 0; i < values.size(); ++i) {
    to[i] = round_at_random(values[i], random_bits(step, begin + i));
  }
}

Result<std::vector<float>> Residual::values() const {
  std::vector<float> values(count_);
  {
    MutexLock lock(mutex_);
    if (!values_) {
      RONDE_RETURN_IF_ERROR(fetch(values.data(), AbortToken()));
      return values;
    }
  }
  add_to(values, 0);
  return values;
}

float* Residual::on_device(const DeviceOps& device, DeviceStream stream) const {
  MutexLock lock(mutex_);
  const bool there = !values_ && home_.device.get() == &device && home_.stream == stream;
  return there ? reinterpret_cast<float*>(home_.memory.get()) : nullptr;
}

/// Copies the values on the device to `values`.
Status Residual::fetch(float* values, const AbortToken& abort) const {
  RONDE_RETURN_IF_ERROR(
      home_.device->copy(values, home_.memory.get(), count_ * sizeof(float), home_.stream));
  RONDE_ASSIGN_OR_RETURN(const DeviceEventPtr arrived, home_.device->record(home_.stream));
  return wait_on_host(*arrived, abort);
}

Status Residual::leave_device(const AbortToken& abort) {
  if (values_) return {};
  std::unique_ptr<void, Free> values(zeros(count_, size_of(format_)));
  RONDE_RETURN_IF_ERROR(fetch(static_cast<float*>(values.get()), abort));
  values_ = std::move(values);
  home_ = {};
  return {};
}

Status Residual::move_to_host(const AbortToken& abort) {
  MutexLock lock(mutex_);
  return leave_device(abort);
}

Status Residual::move_to(DeviceHome home, const AbortToken& abort) {
  MutexLock lock(mutex_);
  RONDE_RETURN_IF_ERROR(leave_device(abort));
  const std::size_t bytes = count_ * sizeof(float);
  if (zero_) {
    const DeviceCopy zeros{nullptr, home.memory.get(), bytes};
    RONDE_RETURN_IF_ERROR(home.device->transform({.copies = {&zeros, 1}}, home.stream));
  } else {
    RONDE_RETURN_IF_ERROR(home.device->copy(home.memory.get(), values_.get(), bytes, home.stream));
    RONDE_ASSIGN_OR_RETURN(const DeviceEventPtr arrived, home.device->record(home.stream));
    RONDE_RETURN_IF_ERROR(wait_on_host(*arrived, abort));  // before the host's memory ends
  }
  zero_ = false;  // from now on the device writes it
  home_ = std::move(home);
  values_.reset();
  return {};
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

std::shared_ptr<Residual> ResidualStore::find(int set, const std::string& name, std::size_t count,
                                              ResidualFormat format) {
  MutexLock lock(mutex_);
  const Key key{set, name};
  const auto known = residuals_.find(key);
  if (known == residuals_.end()) return make(key, count, format);
  if (known->second->count() != count) {
    drop(key, count);
    return make(key, count, format);
  }
  if (known->second->format() != format) reformat(known->second, format);
  return known->second;
}

bool ResidualStore::has_room(std::size_t size, std::size_t instead_of) const {
  return limit_bytes_ == 0 || bytes_ - instead_of + size <= limit_bytes_;
}

void ResidualStore::drop(const Key& key, std::size_t count) {
  const auto known = residuals_.find(key);
  log(LogLevel::kWarning,
      "\"{}\" has {} elements now and had {}: what compression had left over of it is dropped",
      key.second, count, known->second->count());
  bytes_ -= known->second->bytes();
  residuals_.erase(known);
}

std::shared_ptr<Residual> ResidualStore::make(const Key& key, std::size_t count,
                                              ResidualFormat format) {
  if (!has_room(count * size_of(format))) {
    if (!warned_) {
      log(LogLevel::kWarning,
          "residuals of compression take {} of {} bytes; \"{}\" and others go without", bytes_,
          limit_bytes_, key.second);
    }
    warned_ = true;
    return nullptr;
  }
  try {
    auto made = std::make_shared<Residual>(count, format);
    made->set_steps(first_step_);
    residuals_.emplace(key, made);
    bytes_ += made->bytes();
    return made;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// Without room or memory the residual keeps its old format, which works as well.
void ResidualStore::reformat(std::shared_ptr<Residual>& residual, ResidualFormat format) {
  const std::size_t bytes = residual->count() * size_of(format);
  if (bytes > residual->bytes() && !has_room(bytes, residual->bytes())) return;
  try {
    auto made = std::make_shared<Residual>(residual->count(), format);
    made->set_steps(residual->steps());
    const auto values = residual->values();
    if (!values.ok()) return log(LogLevel::kWarning, "{}", values.status().message());
    made->assign(*values, 0);
    bytes_ = bytes_ - residual->bytes() + made->bytes();
    residual = std::move(made);
  } catch (const std::bad_alloc&) {
    log(LogLevel::kDebug, "no memory to keep a residual in another format");
  }
}

Result<std::vector<SavedResidual>> ResidualStore::save() const {
  MutexLock lock(mutex_);
  std::vector<SavedResidual> saved;
  for (const auto& [key, residual] : residuals_) {
    RONDE_ASSIGN_OR_RETURN(std::vector<float> values, residual->values());
    saved.push_back({key.first, key.second, residual->steps(), std::move(values)});
  }
  return saved;
}

Status ResidualStore::load(std::vector<SavedResidual> saved) {
  Residuals loaded;
  std::size_t bytes = 0;
  for (const SavedResidual& one : saved) {
    auto residual = std::make_shared<Residual>(one.values.size());
    residual->assign(one.values, 0);
    residual->set_steps(one.steps);
    bytes += residual->bytes();
    if (!loaded.emplace(Key{one.set, one.name}, std::move(residual)).second) {
      return {Code::kInvalidArgument,
              fmt::format("two residuals of \"{}\" in process set {}", one.name, one.set)};
    }
  }
  MutexLock lock(mutex_);
  residuals_ = std::move(loaded);
  bytes_ = bytes;
  losses_.clear();  // of what was there before
  for (auto& [set, loads] : loads_) {
    if (std::exchange(loads.agreed, false)) ++loads.count;
  }
  return {};
}

void ResidualStore::take_over(const ResidualStore& last) {
  Residuals taken;
  {
    MutexLock lock(last.mutex_);
    taken = last.residuals_;
  }
  MutexLock lock(mutex_);
  for (auto& [key, residual] : taken) {
    if (key.first == 0) bytes_ += residual->bytes();
    (key.first == 0 ? residuals_ : waiting_).emplace(key, std::move(residual));
  }
}

void ResidualStore::rename_sets(const std::map<int, int>& new_ids) {
  MutexLock lock(mutex_);
  for (auto& [key, residual] : std::exchange(waiting_, {})) {
    const auto found = new_ids.find(key.first);
    if (found == new_ids.end()) continue;
    const std::size_t bytes = residual->bytes();
    const bool is_new = residuals_.emplace(Key{found->second, key.second}, residual).second;
    if (is_new) bytes_ += bytes;
  }
}

std::uint64_t ResidualStore::most_steps() const {
  MutexLock lock(mutex_);
  std::uint64_t most = first_step_;
  for (const Residuals* some : {&residuals_, &waiting_}) {
    for (const auto& [key, residual] : *some) most = std::max(most, residual->steps());
  }
  return most;
}

void ResidualStore::go_to_step(std::uint64_t step) {
  MutexLock lock(mutex_);
  first_step_ = step;
  for (const Residuals* some : {&residuals_, &waiting_}) {
    for (const auto& [key, residual] : *some) residual->set_steps(step);
  }
}

std::size_t ResidualStore::count() const {
  MutexLock lock(mutex_);
  return residuals_.size() + waiting_.size();
}

void ResidualStore::end_warm_up(int set) {
  MutexLock lock(mutex_);
  loads_[set].agreed = true;
}

std::uint64_t ResidualStore::loads(int set) const {
  MutexLock lock(mutex_);
  const auto found = loads_.find(set);
  return found == loads_.end() ? 0 : found->second.count;
}

void ResidualStore::note(int set, const std::string& name, const CompressionLoss& loss) {
  MutexLock lock(mutex_);
  losses_[{set, name}] = loss;
}

std::map<std::pair<int, std::string>, CompressionLoss> ResidualStore::losses() const {
  MutexLock lock(mutex_);
  return losses_;
}

std::size_t ResidualStore::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace ronde
