#include "bindings/runtime/injection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/join_text.h"
#include "core/base/log.h"

namespace ronde {
namespace {

/// A kind of fault, the parts that it needs beside the rank, and those that it may have.
struct FaultRow {
  FaultKind kind;
  std::string_view name;
  std::string_view needed;
  std::string_view optional;
};

constexpr std::array kFaults = {
    FaultRow{FaultKind::kNan, "nan", "tensor=NAME", "step=NUMBER element=NUMBER"},
    FaultRow{FaultKind::kFlip, "flip", "tensor=NAME",
             "step=NUMBER element=NUMBER bit=NUMBER where=replica|result"},
    FaultRow{FaultKind::kDrift, "drift", "tensor=NAME", "step=NUMBER factor=NUMBER"},
    FaultRow{FaultKind::kSum, "sum", "tensor=NAME", "step=NUMBER"},
    FaultRow{FaultKind::kSlow, "slow", "seconds=NUMBER", "tensor=NAME step=NUMBER"},
    FaultRow{FaultKind::kKill, "kill", "", "tensor=NAME step=NUMBER"},
    FaultRow{FaultKind::kCut, "cut", "", "tensor=NAME step=NUMBER peer=RANK"}};

constexpr std::string_view name_of(FaultKind kind) noexcept {
  return kFaults[static_cast<std::size_t>(kind)].name;
}

std::string form_of(const FaultRow& row) {
  std::string form = fmt::format("{}:rank=RANK", row.name);
  if (!row.needed.empty()) form += fmt::format(",{}", row.needed);
  for (std::string_view rest = row.optional; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(' '));
    form += fmt::format("[,{}]", part);
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  return form;
}

/// `row`: null where the kind is unknown.
Status refused(std::string_view text, const FaultRow* row) {
  std::vector<std::string> forms;
  for (const FaultRow& one : kFaults) {
    if (row == nullptr || row == &one) forms.push_back(form_of(one));
  }
  return {Code::kInvalidArgument, fmt::format("RONDE_INJECT=\"{}\" is not valid; allowed: {}", text,
                                              join_text(forms, "; "))};
}

template <typename Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_where(std::string_view text, bool& in_result) {
  in_result = text == "result";
  return in_result || text == "replica";
}

bool allows(const FaultRow& row, std::string_view name) {
  const std::string part = fmt::format("{}=", name);
  const std::string all = fmt::format("{} {}", row.needed, row.optional);
  return name == "rank" || all.starts_with(part) || all.find(" " + part) != std::string::npos;
}

/// One "name=value" of an injection.
bool read_part(const FaultRow& row, std::string_view name, std::string_view value,
               Injection& injection) {
  if (!allows(row, name)) return false;
  if (name == "tensor") injection.tensor = value;
  if (name == "tensor") return !value.empty();
  if (name == "rank") return read(value, injection.rank) && injection.rank >= 0;
  if (name == "peer") return read(value, injection.peer) && injection.peer >= 0;
  if (name == "step") return read(value, injection.step);
  if (name == "bit") return read(value, injection.bit) && injection.bit >= 0 && injection.bit < 128;
  if (name == "where") return read_where(value, injection.in_result);
  if (name == "factor") return read(value, injection.factor) && std::isfinite(injection.factor);
  constexpr double kLongest = 86'400;
  if (name == "seconds") {
    return read(value, injection.seconds) && injection.seconds > 0 && injection.seconds <= kLongest;
  }
  return read(value, injection.element);
}

bool is_whole(const FaultRow& row, const Injection& injection) {
  if (injection.rank < 0) return false;
  if (row.needed.starts_with("tensor")) return !injection.tensor.empty();
  return row.kind != FaultKind::kSlow || injection.seconds > 0;
}

Result<Injection> parse_injection(std::string_view text) {
  const auto row = std::ranges::find(kFaults, text.substr(0, text.find(':')), &FaultRow::name);
  if (row == kFaults.end()) return refused(text, nullptr);
  Injection injection{.kind = row->kind, .text = std::string(text)};
  std::string_view rest = text.substr(std::min(text.size(), row->name.size() + 1));
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos ||
        !read_part(*row, part.substr(0, equals), part.substr(equals + 1), injection)) {
      return refused(text, &*row);
    }
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  if (!is_whole(*row, injection)) return refused(text, &*row);
  return injection;
}

bool changes_replicas(const Injection& what) {
  return what.kind == FaultKind::kDrift || (what.kind == FaultKind::kFlip && !what.in_result);
}

bool changes_results(const Injection& what) {
  return what.in_result || what.kind == FaultKind::kSum;
}

bool is_host_allreduce(const Bundle& bundle) {
  return bundle.kind == Collective::kAllreduce && bundle.device.kind == DeviceKind::kCpu;
}

OwnElements own_elements(const Segment& segment) {
  return {.in = segment.in, .out = segment.out, .bytes = segment.bytes};
}

/// True for faults that happen again and again.
bool goes_on(const Injection& what) {
  return what.kind == FaultKind::kDrift || what.kind == FaultKind::kSlow ||
         what.kind == FaultKind::kSum;
}

bool has_bit(const Injection& what, std::size_t elements, std::size_t element_bytes) {
  return what.element < elements && what.bit < static_cast<int>(element_bytes) * 8;
}

/// Flips a bit of the element. Returns the bit.
int flip(const Injection& what, std::byte* data, std::size_t element_bytes) {
  const int bits = static_cast<int>(element_bytes) * 8;
  const int bit = what.bit >= 0 ? what.bit : std::max(0, bits - 3);
  data[what.element * element_bytes + static_cast<std::size_t>(bit / 8)] ^=
      static_cast<std::byte>(1 << (bit % 8));
  return bit;
}

/// A NaN of every floating type has all its bits set.
void put_nan(DType dtype, const void* data, std::size_t element) {
  auto* const elements = static_cast<std::byte*>(const_cast<void*>(data));
  std::memset(elements + element * size_of(dtype), 0xFF, size_of(dtype));
}

void scale(const ReduceKernels& kernels, DType dtype, std::span<std::byte> data, double factor) {
  std::vector<double> values(data.size() / size_of(dtype));
  kernels.cast(dtype, data.data(), DType::kFloat64, values.data(), values.size());
  for (double& value : values) value *= factor;
  kernels.cast(DType::kFloat64, values.data(), dtype, data.data(), values.size());
}

bool is_connection(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
         (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

/// The address of the other end; empty: there is none.
std::string address_of_peer(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return {};
  return {reinterpret_cast<const char*>(&peer), length};
}

/// Shuts down this process's TCP connections: those with one rank, or all. Returns their number.
int cut_connections(const Injection& what, const PeerEnds* peers) {
  int cut = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd = -1;
    if (!read(entry.path().filename().string(), fd) || !is_connection(fd)) continue;
    if (what.peer >= 0 && (peers == nullptr || !peers->has(what.peer, fd))) continue;
    if (::shutdown(fd, SHUT_RDWR) == 0) ++cut;
  }
  return cut;
}

bool names(const Injection& what, std::string_view name) {
  return name.find(what.tensor) != std::string_view::npos;
}

/// The thing that never came for a fault.
std::string_view missed_by(const Injection& what) {
  if (changes_replicas(what)) return "no replica's tensor";
  if (what.kind == FaultKind::kCut) return "no operation over TCP";
  return what.kind == FaultKind::kSum ? "no sum that a drill reaches" : "no such operation";
}

/// The input in host memory that a NaN fits in.
bool takes_nan(const Injection& what, const Submission& submission) {
  const Request& request = submission.request;
  return traits_of(request.kind).reduces && request.device.kind == DeviceKind::kCpu &&
         !request.tensors.empty() && is_floating(request.tensors[0].dtype) &&
         submission.inputs[0] != nullptr &&
         static_cast<std::size_t>(element_count(request.tensors[0].shape)) > what.element;
}

}  // namespace

Result<std::vector<Injection>> parse_injections(std::string_view text) {
  std::vector<Injection> all;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(';'));
    RONDE_ASSIGN_OR_RETURN(Injection injection, parse_injection(one));
    all.push_back(std::move(injection));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  return all;
}

Result<std::vector<Injection>> asked_injections(std::string_view setting) {
  if (setting.empty()) return std::vector<Injection>();
  if (setting.starts_with(kAskedFor)) return parse_injections(setting.substr(kAskedFor.size()));
  return Status(Code::kInvalidArgument,
                fmt::format("RONDE_INJECT=\"{}\": faults are planted only where `ronde run "
                            "--inject` asks for them; unset RONDE_INJECT",
                            setting));
}

void PeerEnds::add(int rank, int fd) {
  const MutexLock lock(mutex_);
  ranks_[address_of_peer(fd)] = rank;
}

bool PeerEnds::has(int rank, int fd) const {
  const MutexLock lock(mutex_);
  const auto found = ranks_.find(address_of_peer(fd));
  return found != ranks_.end() && found->second == rank;
}

Injector::Injector(Options options) : options_(std::move(options)) {
  for (const Injection& one : options_.faults) {
    if (one.rank == options_.rank) faults_.push_back({.what = one});
  }
}

void Injector::note(Fault& fault, std::string_view where) {
  if (std::exchange(fault.planted, true)) return;
  const std::string text =
      fmt::format("planted {}{} ({})", name_of(fault.what.kind), where, fault.what.text);
  log(LogLevel::kWarning, "{}", text);
  if (EventSink* events = options_.events == nullptr ? nullptr : options_.events->get()) {
    events->instant(kMarksTrack, text);
  }
}

void Injector::before(const Submission& submission) {
  const Request& request = submission.request;
  std::vector<Injection> acts;
  {
    const MutexLock lock(mutex_);
    for (Fault& fault : faults_) {
      const Injection& what = fault.what;
      if (changes_replicas(what) || changes_results(what) || (fault.planted && !goes_on(what)) ||
          options_.steps() + 1 < what.step || !names(what, request.name)) {
        continue;
      }
      if (what.kind != FaultKind::kNan) {
        acts.push_back(what);
        if (what.kind != FaultKind::kCut) note(fault, " before " + described(request));
      } else if (takes_nan(what, submission)) {
        put_nan(request.tensors[0].dtype, submission.inputs[0], what.element);
        note(fault, fmt::format(" at element {} of {}", what.element, described(request)));
      }
    }
  }
  for (const Injection& what : acts) act(what);
}

/// Holds no lock.
void Injector::act(const Injection& what) {
  if (what.kind == FaultKind::kSlow) {
    std::this_thread::sleep_for(std::chrono::duration<double>(what.seconds));
  }
  if (what.kind == FaultKind::kKill) (void)std::raise(SIGKILL);
  if (what.kind != FaultKind::kCut) return;
  const int connections = cut_connections(what, options_.peers);
  if (connections == 0) return;
  const MutexLock lock(mutex_);
  for (Fault& fault : faults_) {
    if (fault.what.text == what.text) note(fault, fmt::format(": {} connections", connections));
  }
}

void Injector::during(const Bundle& bundle, const Work& work) {
  if (!is_host_allreduce(bundle) || options_.sums == nullptr) return;
  const MutexLock lock(mutex_);
  for (Fault& fault : faults_) {
    const Injection& what = fault.what;
    if (what.kind != FaultKind::kSum || options_.steps() + 1 < what.step) continue;
    for (std::size_t s = 0; s < work.segments.size(); ++s) {
      if (!names(what, bundle.tensors[s].name)) continue;
      options_.sums->spoil(own_elements(work.segments[s]));
      fault.begun = true;
    }
  }
}

void Injector::heal(const Bundle& bundle, const Work& work) {
  if (options_.sums == nullptr) return;
  for (Fault& fault : faults_) {
    for (std::size_t s = 0; fault.what.kind == FaultKind::kSum && s < work.segments.size(); ++s) {
      const std::string_view name = bundle.tensors[s].name;
      if (!names(fault.what, name)) continue;
      if (options_.sums->heal(own_elements(work.segments[s]))) {
        note(fault, fmt::format(" in \"{}\" and each later one", name));
      }
    }
  }
}

void Injector::warn_of_right_sums(const Bundle& bundle) {
  for (Fault& fault : faults_) {
    if (!fault.begun || fault.planted || fault.warned) continue;
    for (const BundleTensor& tensor : bundle.tensors) {
      if (!names(fault.what, tensor.name)) continue;
      log(LogLevel::kWarning,
          "the drill has planted nothing in \"{}\" so far: rank {} did not compute its sums, or "
          "where no drill reaches them, as of 16-bit types or fused tensors between hosts, small "
          "tensors, Gloo and MPI ({})",
          tensor.name, options_.rank, fault.what.text);
      fault.warned = true;
      break;
    }
  }
}

void Injector::after_failure(const Bundle& bundle, const Work& work) {
  if (!is_host_allreduce(bundle)) return;
  const MutexLock lock(mutex_);
  heal(bundle, work);
}

void Injector::after(const Bundle& bundle, const Work& work) {
  if (!is_host_allreduce(bundle)) return;
  const MutexLock lock(mutex_);
  heal(bundle, work);
  warn_of_right_sums(bundle);
  for (Fault& fault : faults_) {
    const Injection& what = fault.what;
    if (!what.in_result || fault.planted || options_.steps() + 1 < what.step) continue;
    for (std::size_t s = 0; s < work.segments.size() && !fault.planted; ++s) {
      const Segment& segment = work.segments[s];
      const BundleTensor& tensor = bundle.tensors[s];
      const auto begin = static_cast<std::size_t>(tensor.begin);
      const std::size_t width = size_of(work.reduction.dtype);
      Injection here = what;
      here.element -= std::min(begin, what.element);
      if (!names(what, tensor.name) || segment.out == nullptr || what.element < begin ||
          !has_bit(here, segment.bytes / width, width)) {
        continue;
      }
      const int bit = flip(here, segment.out, width);
      note(fault, fmt::format(" of bit {} of element {} in the result of \"{}\"", bit, what.element,
                              tensor.name));
    }
  }
}

std::vector<std::string> Injector::replica_tensors(std::uint64_t step) const {
  const MutexLock lock(mutex_);
  std::vector<std::string> tensors;
  for (const Fault& fault : faults_) {
    const bool over = fault.planted && !goes_on(fault.what);
    if (changes_replicas(fault.what) && !over && fault.what.step <= step) {
      tensors.push_back(fault.what.tensor);
    }
  }
  return tensors;
}

bool Injector::plant_in(const ReplicaMemory& memory, std::uint64_t step) {
  const MutexLock lock(mutex_);
  const auto dtype = parse_dtype(memory.dtype);
  const std::size_t elements = memory.data.size() / std::max<std::size_t>(memory.element_bytes, 1);
  bool changed = false;
  for (Fault& fault : faults_) {
    const Injection& what = fault.what;
    if (!changes_replicas(what) || (fault.planted && !goes_on(what)) || step < what.step ||
        fault.last_step == step || !names(what, memory.name)) {
      continue;
    }
    if (what.kind == FaultKind::kFlip && has_bit(what, elements, memory.element_bytes)) {
      const int bit = flip(what, memory.data.data(), memory.element_bytes);
      note(fault, fmt::format(" of bit {} of element {} of \"{}\" after step {}", bit, what.element,
                              memory.name, step));
    } else if (what.kind == FaultKind::kDrift && dtype.ok() && is_floating(*dtype)) {
      scale(*options_.kernels, *dtype, memory.data, what.factor);
      note(fault, fmt::format(" of \"{}\" after step {} and each later one", memory.name, step));
    } else {
      continue;
    }
    fault.last_step = step;
    changed = true;
  }
  return changed;
}

void Injector::report_unplanted() const {
  const MutexLock lock(mutex_);
  for (const Fault& fault : faults_) {
    if (fault.planted) continue;
    const Injection& what = fault.what;
    const std::string tensor =
        what.tensor.empty() ? "" : fmt::format(" with \"{}\" in its name", what.tensor);
    log(LogLevel::kWarning,
        "the drill planted nothing: {}: {}{} came at step {} or later; {} steps were marked",
        what.text, missed_by(what), tensor, what.step, options_.steps());
  }
}

}  // namespace ronde
