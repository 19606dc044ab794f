// Shape of a tensor: its extents, outermost first. Zero dimensions mean a single element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/export.h"

namespace ronde {

/// Extents in elements, outermost first.
using Shape = std::vector<std::int64_t>;

/// Number of elements: 1 for no dimensions, 0 where any extent is 0.
RONDE_API std::int64_t element_count(const Shape& shape) noexcept;

/// "[2, 3]".
RONDE_API std::string to_string(const Shape& shape);

}  // namespace ronde
