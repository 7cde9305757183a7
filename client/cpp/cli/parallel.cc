#include "client/cpp/cli/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace fovea::client {

void ForEach(size_t count, size_t concurrency, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(count, concurrency); ++i) {
    threads.emplace_back([&] {
      for (size_t index = next++; index < count; index = next++) work(index);
    });
  }
}

}  // namespace fovea::client
