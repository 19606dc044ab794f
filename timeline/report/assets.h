// The parts of the page that are files of their own; the build turns them into text.
#pragma once

#include <string_view>

namespace ronde::report {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;
extern const std::string_view kZoomJs;

}  // namespace ronde::report
