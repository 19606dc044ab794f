// The options of elastic jobs, for `ronde run` and horovodrun.
#pragma once

#include "bindings/cli/commands.h"
#include "bindings/cli/launch/elastic/elastic_launcher.h"
#include "core/base/status.h"

namespace ronde {

/// Adds the options, also in horovodrun's spellings.
void add_elastic_options(CLI::App& app, ElasticRequest& request);

/// Refuses options that do not go together, naming what is allowed. For every job.
Status check_elastic_options(const RunRequest& request);

/// The slots of one host that the options ask for; 0 where they ask for none.
int asked_slots(const RunRequest& request);

/// The job that was asked for. `launch`: its other options.
/// Errors: kInvalidArgument naming the option and what is allowed.
Result<ElasticOptions> elastic_options(const RunRequest& request, const LaunchOptions& launch);

}  // namespace ronde
