// The process that starts and watches the ranks of one host. It is told what to do on standard
// input, reports on standard output, and when its input ends it kills all that it has started: so
// neither a killed launcher nor a broken ssh connection leaves anything behind.
#pragma once

namespace ronde {

/// Serves one launcher from standard input and output until the ranks have ended. Returns this
/// process's exit status.
int run_agent();

}  // namespace ronde
