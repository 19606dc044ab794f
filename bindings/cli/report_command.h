// `ronde timeline report` shows why training waits, `ronde timeline diff` what became slower.
#pragma once

namespace CLI {
class App;
}

namespace ronde {

/// Adds the subcommands to `timeline`.
void add_report_command(CLI::App& timeline);
void add_diff_command(CLI::App& timeline);

}  // namespace ronde
