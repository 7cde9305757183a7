#pragma once

#include <cstddef>
#include <functional>

namespace fovea::client {

// Calls `work` once with each of 0 .. count-1, in that order of starting, at most `concurrency` at
// a time, and returns when all have returned. `work` runs on several threads.
void ForEach(size_t count, size_t concurrency, const std::function<void(size_t)>& work);

}  // namespace fovea::client
