#include "timeline/recording/nvtx_sink.h"

#ifndef RONDE_WHY_NVTX  // why the build has no NVTX
#include <nvtx3/nvToolsExt.h>
#endif

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "core/base/mutex.h"

namespace ronde {

#ifdef RONDE_WHY_NVTX

std::string_view nvtx_missing() noexcept { return RONDE_WHY_NVTX; }

std::unique_ptr<NvtxSink> create_nvtx_sink() { return nullptr; }

#else

namespace {

/// NVTX's attributes of a range or mark. `text` must outlive them.
nvtxEventAttributes_t attributes_of(const std::string& text, std::uint64_t bytes) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text.c_str();
  if (bytes > 0) {
    attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attributes.payload.ullValue = bytes;
  }
  return attributes;
}

/// Uses process ranges, since spans may end in another thread than they begin in.
class Sink final : public NvtxSink {
 public:
  Sink() : domain_(nvtxDomainCreateA("ronde")) {}
  ~Sink() override { nvtxDomainDestroy(domain_); }

  void pass_on_to(EventSink* next) noexcept override {
    next_.store(next, std::memory_order_release);
  }

  void begin(std::string_view track, std::string_view event, const EventArgs& args) override {
    if (EventSink* next = next_.load(std::memory_order_acquire)) next->begin(track, event, args);
    const std::string text = text_of(track, event);
    const nvtxEventAttributes_t attributes = attributes_of(text, args.bytes);
    MutexLock lock(mutex_);
    const auto at = open_.try_emplace(std::string(track)).first;
    at->second.push_back(nvtxDomainRangeStartEx(domain_, &attributes));
  }

  void end(std::string_view track, const EventArgs& args) override {
    if (EventSink* next = next_.load(std::memory_order_acquire)) next->end(track, args);
    MutexLock lock(mutex_);
    const auto at = open_.find(track);
    if (at == open_.end() || at->second.empty()) return;
    nvtxDomainRangeEnd(domain_, at->second.back());
    at->second.pop_back();
  }

  /// NVTX has no spans of the past.
  void span(std::string_view track, std::string_view event, TimeSpan times,
            const EventArgs& args) override {
    if (EventSink* next = next_.load(std::memory_order_acquire)) {
      next->span(track, event, times, args);
    }
  }

  void instant(std::string_view track, std::string_view event) override {
    if (EventSink* next = next_.load(std::memory_order_acquire)) next->instant(track, event);
    const std::string text = text_of(track, event);
    const nvtxEventAttributes_t attributes = attributes_of(text, 0);
    nvtxDomainMarkEx(domain_, &attributes);
  }

  void counter(std::string_view name, double value) override {
    if (EventSink* next = next_.load(std::memory_order_acquire)) next->counter(name, value);
  }

 private:
  static std::string text_of(std::string_view track, std::string_view event) {
    return std::string(event) + " (" + std::string(track) + ")";
  }

  const nvtxDomainHandle_t domain_;
  std::atomic<EventSink*> next_{nullptr};
  Mutex mutex_;
  std::map<std::string, std::vector<nvtxRangeId_t>, std::less<> > open_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace

std::string_view nvtx_missing() noexcept { return {}; }

std::unique_ptr<NvtxSink> create_nvtx_sink() { return std::make_unique<Sink>(); }

#endif

}  // namespace ronde
