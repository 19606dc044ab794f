// The process that starts and watches the ranks of one host. It reads messages from standard input
// and writes reports to standard output. At the end of its input it kills all that it has started:
// neither a killed launcher nor a broken ssh connection leaves processes behind.
#pragma once

namespace ronde {

/// Serves one launcher from standard input and output until the ranks have ended. Returns this
/// process's exit status.
int run_agent();

}  // namespace ronde
