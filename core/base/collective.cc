#include "core/base/collective.h"

namespace ronde {

std::string_view to_string(Collective kind) noexcept { return name_in(kCollectives, kind); }

Result<Collective> parse_collective(std::string_view text) {
  return parse_in(kCollectives, text, "collective");
}

}  // namespace ronde
