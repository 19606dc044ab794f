// An observer of phases that keeps what it is told.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/ports/phases.h"

namespace ronde::test {

/// Each phase as "NAME", preceded by "OUTER/" for each phase it lies in. Threads: one, and another
/// one for beside().
class PhaseLines final : public PhaseObserver {
 public:
  /// `bytes`: of the collective. `second`: what beside() gives; null: this one.
  explicit PhaseLines(std::size_t bytes, PhaseLines* second = nullptr)
      : bytes_(bytes), second_(second) {}

  void begin(std::string_view phase) override {
    open_.push_back((open_.empty() ? "" : open_.back() + "/") + std::string(phase));
    lines.push_back(open_.back());
  }
  void end() override { open_.pop_back(); }
  [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }
  PhaseObserver& beside() noexcept override { return second_ == nullptr ? *this : *second_; }

  [[nodiscard]] bool all_ended() const noexcept { return open_.empty(); }

  std::vector<std::string> lines;

 private:
  const std::size_t bytes_;
  PhaseLines* const second_;
  std::vector<std::string> open_;
};

/// True if one of the lines has this part.
inline bool has(const std::vector<std::string>& lines, std::string_view part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

}  // namespace ronde::test
