// Waiting for what other threads do, with an end.
#pragma once

#include <chrono>
#include <thread>

namespace fovea {

// Whether it comes to hold within a minute.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 60'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace fovea
