// The rank and the mark that made one run slower or faster than another.
#pragma once

#include <string>

#include "timeline/report/diff.h"

namespace ronde::report {

/// A sentence that names the rank and the mark whose time outside Ronde changed most, if that is a
/// good part of `change_ns`, the change of a step; otherwise empty. Time blocked in Ronde does not
/// count: it grows on all ranks that wait.
std::string describe_culprit(const Run& before, const Run& after, double change_ns);

}  // namespace ronde::report
