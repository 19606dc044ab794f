// The name that a mistyped word was perhaps meant to be.
#pragma once

#include <span>
#include <string_view>

namespace ronde {

/// The name that is most similar to the word; empty if none differs in a third of its letters or
/// less. Two letters in the wrong order count as one difference.
std::string_view similar_name(std::string_view word, std::span<const std::string_view> names);

}  // namespace ronde
