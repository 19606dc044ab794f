// In place of a profiler: a library that NVTX loads because NVTX_INJECTION64_PATH names it. It
// counts what it is told, for the test that has loaded it.
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cstring>

namespace {

std::atomic<int> g_begun{0};
std::atomic<int> g_ended{0};
std::atomic<int> g_marks{0};
char g_first[200];
char g_domain[200];
unsigned long long g_bytes;

nvtxDomainHandle_t create_domain(const char* name) {
  std::strncpy(g_domain, name, sizeof g_domain - 1);
  return reinterpret_cast<nvtxDomainHandle_t>(g_domain);
}

nvtxRangeId_t begin_range(nvtxDomainHandle_t, const nvtxEventAttributes_t* what) {
  const int before = g_begun.fetch_add(1);
  if (before == 0) {
    std::strncpy(g_first, what->message.ascii, sizeof g_first - 1);
    g_bytes = what->payload.ullValue;
  }
  return static_cast<nvtxRangeId_t>(before) + 1;
}

void end_range(nvtxDomainHandle_t, nvtxRangeId_t) { ++g_ended; }
void mark(nvtxDomainHandle_t, const nvtxEventAttributes_t*) { ++g_marks; }

template <typename Function>
void put(NvtxFunctionTable table, int id, Function function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" {

// NOLINTNEXTLINE(readability-identifier-naming): the name that NVTX looks for.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  put(table, NVTX_CBID_CORE2_DomainCreateA, &create_domain);
  put(table, NVTX_CBID_CORE2_DomainRangeStartEx, &begin_range);
  put(table, NVTX_CBID_CORE2_DomainRangeEnd, &end_range);
  put(table, NVTX_CBID_CORE2_DomainMarkEx, &mark);
  return 1;
}

__attribute__((visibility("default"))) int ronde_told_begun() { return g_begun; }
__attribute__((visibility("default"))) int ronde_told_ended() { return g_ended; }
__attribute__((visibility("default"))) int ronde_told_marks() { return g_marks; }
__attribute__((visibility("default"))) const char* ronde_told_first() { return g_first; }
__attribute__((visibility("default"))) const char* ronde_told_domain() { return g_domain; }
__attribute__((visibility("default"))) unsigned long long ronde_told_bytes() { return g_bytes; }
}
