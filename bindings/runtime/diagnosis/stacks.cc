#include "bindings/runtime/diagnosis/stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/os/folders.h"

namespace ronde::diagnosis {
namespace {

/// A file's bytes for as long as it lives.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat facts {};
    if (!fd.valid() || ::fstat(fd.get(), &facts) != 0 || facts.st_size <= 0) return;
    const auto size = static_cast<std::size_t>(facts.st_size);
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (memory != MAP_FAILED) bytes_ = {static_cast<const std::byte*>(memory), size};
  }
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// `count` objects at an offset; empty where the file does not have them.
  template <typename T>
  [[nodiscard]] std::vector<T> objects(std::uint64_t offset, std::uint64_t count) const {
    const std::uint64_t most = bytes_.size() / sizeof(T);
    if (count > most || offset > bytes_.size() - count * sizeof(T)) return {};
    std::vector<T> found(count);
    if (count > 0) std::memcpy(found.data(), bytes_.data() + offset, count * sizeof(T));
    return found;
  }

 private:
  std::span<const std::byte> bytes_;
};

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? text.get() : name;
}

std::string base_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

/// The address in memory at which the file's addresses begin; 0 for programs at fixed places.
std::uint64_t load_base(const MappedFile& file, const void* base) {
  const auto header = file.objects<Elf64_Ehdr>(0, 1);
  const bool fixed = !header.empty() && header[0].e_type == ET_EXEC;
  return fixed ? 0 : reinterpret_cast<std::uintptr_t>(base);
}

/// A file of /proc; empty where the process or thread is gone.
std::string proc_file(const std::string& path) {
  auto text = read_file("/proc/" + path);
  return text.ok() ? std::move(*text) : std::string();
}

std::string task_file(int pid, int tid, const char* name) {
  return proc_file(fmt::format("{}/task/{}/{}", pid, tid, name));
}

/// The rest of the line of a status file that begins with `field`.
std::string status_field(const std::string& status, std::string_view field) {
  const std::size_t at = status.find(fmt::format("\n{}:", field));
  if (at == std::string::npos) return {};
  const std::size_t begin = status.find_first_not_of(" \t", at + field.size() + 2);
  return status.substr(begin, status.find('\n', begin) - begin);
}

/// The function of the kernel that the thread sleeps in; empty where it runs or it is not told.
std::string wait_channel(int pid, int tid) {
  const std::string name = task_file(pid, tid, "wchan");
  return name == "0" ? "" : name;
}

}  // namespace

SymbolFinder::Table SymbolFinder::read_table(const std::string& path) {
  const MappedFile file(path);
  const auto header = file.objects<Elf64_Ehdr>(0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      header[0].e_ident[EI_CLASS] != ELFCLASS64) {
    return {};
  }
  const auto sections = file.objects<Elf64_Shdr>(header[0].e_shoff, header[0].e_shnum);
  Table table;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const auto symbols =
        file.objects<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
    const Elf64_Shdr& names = sections[section.sh_link];
    auto texts = file.objects<char>(names.sh_offset, names.sh_size);
    texts.push_back('\0');
    for (const Elf64_Sym& symbol : symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value == 0) continue;
      if (symbol.st_name >= texts.size()) continue;
      table.push_back({symbol.st_value, symbol.st_value + symbol.st_size, &texts[symbol.st_name]});
    }
  }
  std::ranges::sort(table, {}, &Symbol::begin);
  return table;
}

const SymbolFinder::Table& SymbolFinder::table_of(const std::string& path) {
  const auto known = tables_.find(path);
  if (known != tables_.end()) return known->second;
  return tables_.emplace(path, read_table(path)).first->second;
}

std::string SymbolFinder::describe(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return fmt::format("{}", address);
  }
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::string file = base_name(info.dli_fname);
  if (info.dli_sname != nullptr) {
    const auto offset = at - reinterpret_cast<std::uintptr_t>(info.dli_saddr);
    return fmt::format("{}+{:#x} ({})", demangled(info.dli_sname), offset, file);
  }
  const std::uint64_t place = at - load_base(MappedFile(info.dli_fname), info.dli_fbase);
  const Table& table = table_of(info.dli_fname);
  const auto next = std::ranges::upper_bound(table, place, {}, &Symbol::begin);
  if (next == table.begin() || place >= std::prev(next)->end) {
    return fmt::format("{}+{:#x}", file, place);
  }
  const Symbol& symbol = *std::prev(next);
  return fmt::format("{}+{:#x} ({})", demangled(symbol.name.c_str()), place - symbol.begin, file);
}

namespace {

constexpr int kMostFrames = 48;
constexpr std::size_t kSignalsTried = 10;

/// The memory to which a thread writes its stack. It is never freed if the thread answers late.
struct Answer {
  std::array<void*, kMostFrames> frames{};
  std::atomic<int> count{-1};
};

void answer_signal(int, siginfo_t* info, void*) {
  const int saved = errno;
  if (info->si_code == SI_QUEUE && info->si_pid == ::getpid()) {
    auto* answer = static_cast<Answer*>(info->si_value.sival_ptr);
    answer->count.store(::backtrace(answer->frames.data(), kMostFrames), std::memory_order_release);
  }
  errno = saved;
}

/// Takes the first real-time signal from above that has no handler; 0 where all have.
int install_handler() {
  struct sigaction action {};
  action.sa_sigaction = &answer_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignalsTried; ++i) {
    const int number = SIGRTMAX - 3 - static_cast<int>(i);
    struct sigaction before {};
    if (::sigaction(number, nullptr, &before) != 0) continue;
    const bool free = (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL;
    if (free && ::sigaction(number, &action, nullptr) == 0) return number;
  }
  return 0;
}

/// The signal, installed on first use: it cannot be given back, as one may still be on its way.
int stack_signal() {
  static const int kNumber = [] {
    void* frame = nullptr;
    ::backtrace(&frame, 1);  // loads what it needs here, not in a handler
    return install_handler();
  }();
  return kNumber;
}

bool ask(int tid, int number, Answer* answer) {
  siginfo_t info{};
  info.si_signo = number;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_ptr = answer;
  return ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), tid, number, &info) == 0;
}

bool wait_for(const Answer& answer, TimePoint deadline) {
  while (answer.count.load(std::memory_order_acquire) < 0) {
    if (now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

std::vector<std::string> frames_of(int tid, int number, SymbolFinder& symbols, TimePoint deadline) {
  constexpr int kHandlerFrames = 2;  // the handler itself, and the kernel's way into it
  if (number == 0 || blocks_signal(tid, number)) return {};
  auto answer = std::make_unique<Answer>();
  if (!ask(tid, number, answer.get())) return {};
  if (!wait_for(*answer, deadline)) {
    (void)answer.release();
    return {};
  }
  std::vector<std::string> frames;
  for (int i = kHandlerFrames; i < answer->count.load(); ++i) {
    frames.push_back(symbols.describe(answer->frames[static_cast<std::size_t>(i)]));
  }
  return frames;
}

}  // namespace

std::vector<ThreadStack> take_stacks(std::span<const int> tids, TimePoint deadline) {
  static Mutex mutex;
  const MutexLock lock(mutex);
  SymbolFinder symbols;
  std::vector<ThreadStack> stacks;
  const int self = ::getpid();
  for (const int tid : tids) {
    ThreadStack stack;
    stack.tid = tid;
    stack.name = thread_name(self, tid);
    stack.state = thread_state(self, tid);  // before it is disturbed
    stack.frames = frames_of(tid, stack_signal(), symbols, deadline);
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

std::string thread_state(int pid, int tid) {
  const std::string state = status_field(task_file(pid, tid, "status"), "State");
  if (state.empty()) return "gone";
  const std::string where = wait_channel(pid, tid);
  return where.empty() ? state : fmt::format("{}, in {}", state, where);
}

bool is_stopped(int pid) {
  const std::string state = status_field(task_file(pid, pid, "status"), "State");
  return !state.empty() && (state[0] == 'T' || state[0] == 't');
}

std::string thread_name(int pid, int tid) {
  std::string name = task_file(pid, tid, "comm");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

std::vector<int> threads_named(std::string_view prefix) {
  std::vector<int> found;
  for (const std::filesystem::path& task : paths_in("/proc/self/task")) {
    const int tid = std::atoi(task.filename().c_str());
    if (thread_name(::getpid(), tid).starts_with(prefix)) found.push_back(tid);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool blocks_signal(int tid, int number) {
  const std::string mask = status_field(task_file(::getpid(), tid, "status"), "SigBlk");
  std::uint64_t bits = 0;
  std::from_chars(mask.data(), mask.data() + mask.size(), bits, 16);
  return ((bits >> (number - 1)) & 1) != 0;
}

std::string command_of(int pid) {
  constexpr std::size_t kShown = 60;
  std::string words = proc_file(fmt::format("{}/cmdline", pid)).substr(0, kShown);
  std::replace(words.begin(), words.end(), '\0', ' ');
  while (!words.empty() && words.back() == ' ') words.pop_back();
  return words;
}

}  // namespace ronde::diagnosis
