// Stacks of this process's own threads, with names, and the kernel's view of processes and threads,
// read without their help. Written here: libraries that unwind other threads stop the process, or
// need a second one.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"

namespace ronde::diagnosis {

/// Finds names in the symbol tables of the files that the code was loaded from: dladdr() alone
/// knows only what a library exports, which is little of Ronde. Remembers the tables it has read.
/// Threads: one.
class SymbolFinder {
 public:
  /// "ronde::Engine::step()+0x1f (libronde.so.0)", or the file and the offset in it, or the
  /// address, as far as they can be told.
  std::string describe(const void* address);

 private:
  struct Symbol {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::string name;
  };
  using Table = std::vector<Symbol>;  // ascending
  static Table read_table(const std::string& path);
  const Table& table_of(const std::string& path);

  std::map<std::string, Table> tables_;
};

/// One thread's state and stack.
struct ThreadStack {
  int tid = 0;
  std::string name;
  std::string state;                ///< The kernel's view.
  std::vector<std::string> frames;  ///< Innermost first; empty where it did not answer.
};

/// Asks each of `tids` for its stack by a real-time signal that nobody else uses; its handler stays
/// installed. A thread that blocks signals, or does not answer by `deadline`, has the kernel's view
/// alone. System calls of the threads are restarted, as far as they can be.
/// Threads: any, one at a time in a process. Blocks: until `deadline` at most.
std::vector<ThreadStack> take_stacks(std::span<const int> tids, TimePoint deadline);

/// One thread's state: "S (sleeping), in futex_wait_queue"; "gone" where there is none.
std::string thread_state(int pid, int tid);

/// True if the process is stopped (SIGSTOP, a debugger), so that it answers nobody.
bool is_stopped(int pid);

/// The threads of this process whose names begin with `prefix`, ascending.
std::vector<int> threads_named(std::string_view prefix);

/// A thread's name.
std::string thread_name(int pid, int tid);

/// True if a thread of this process lets no signal `number` through.
bool blocks_signal(int tid, int number);

/// The first words of a process's command line, at most 60 bytes.
std::string command_of(int pid);

}  // namespace ronde::diagnosis
