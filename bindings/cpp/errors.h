// The one place where a Status becomes an exception of the C++ API.
#pragma once

#include <utility>

#include "core/base/status.h"

namespace ronde {

/// Throws the exception type of the status's code; returns when ok.
void throw_if_error(const Status& status);

/// The value, or the exception.
template <typename T>
T value_or_throw(Result<T> result) {
  throw_if_error(result.status());
  return std::move(result).value();
}

}  // namespace ronde
