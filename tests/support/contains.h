// What most tests of texts ask.
#pragma once

#include <string>

namespace ronde::test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ronde::test
