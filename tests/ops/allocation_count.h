// Counts what a test program takes from the heap, by replacing operator new.
#pragma once

namespace ronde::test {

/// Allocations by `new` of the calling thread so far.
long allocation_count() noexcept;

}  // namespace ronde::test
