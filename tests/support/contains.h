// Searches of texts, for many tests.
#pragma once

#include <string>

namespace ronde::test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ronde::test
