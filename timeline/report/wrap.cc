#include "timeline/report/wrap.h"

#include <sstream>

namespace ronde::report {

void wrap(std::string& out, const std::string& text, std::size_t indent) {
  constexpr std::size_t kWidth = 96;
  std::istringstream words(text);
  std::size_t column = indent;
  for (std::string word; words >> word; column += word.size() + 1) {
    if (column > indent && column + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    }
    if (column > indent) out += ' ';
    out += word;
  }
  out += '\n';
}

}  // namespace ronde::report
