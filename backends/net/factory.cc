#include "backends/net/factory.h"

#include <utility>

#include "backends/net/identity.h"
#include "backends/net/join.h"
#include "core/base/os/interfaces.h"

namespace ronde {

Result<JobLink> join_job(const Config& config, const std::string& version,
                         std::shared_ptr<AbortToken> abort) {
  return net::join(config, {version, host_name(), net::host_identity(), std::move(abort)});
}

}  // namespace ronde
