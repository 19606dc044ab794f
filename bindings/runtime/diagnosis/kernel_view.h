// The kernel's view of processes and threads, read without their help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ronde::diagnosis {

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
