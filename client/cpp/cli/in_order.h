// Work on several threads whose results come in the order of what they were made from.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace fovea::client {

// Calls `work` on the items of `next`, up to `workers` (above 0) at a time, each on a thread of its
// own, and `done` with the results in the order of the items, on the caller's thread, as soon as
// their turn comes. `next` is called by one thread at a time, until it returns nothing; it may
// block. Returns when every item that was taken is done.
//
// What is held does not grow with the number of items: no item is taken while 8 * workers results
// wait for one before them.
template <typename Item, typename Result>
void InOrder(size_t workers, const std::function<std::optional<Item>()>& next,
             const std::function<Result(Item)>& work, const std::function<void(Result)>& done) {
  std::mutex taking;  // held while `next` runs; taken before `mutex`
  bool ended = false;
  size_t taken = 0;

  std::mutex mutex;
  std::condition_variable turn, room;
  std::map<size_t, Result> waiting;  // by place
  size_t handed_on = 0;
  size_t running = workers;

  const auto take = [&]() -> std::optional<std::pair<size_t, Item>> {
    std::lock_guard only_one(taking);
    {
      std::unique_lock lock(mutex);
      room.wait(lock, [&] { return taken < handed_on + 8 * workers; });
    }
    if (ended) return std::nullopt;
    std::optional<Item> item = next();
    ended = !item;
    if (ended) return std::nullopt;
    return std::pair(taken++, *std::move(item));
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < workers; ++i) {
    threads.emplace_back([&] {
      while (auto item = take()) {
        Result result = work(std::move(item->second));
        std::lock_guard lock(mutex);
        waiting.emplace(item->first, std::move(result));
        turn.notify_one();
      }
      std::lock_guard lock(mutex);
      --running;
      turn.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  while (true) {
    turn.wait(lock, [&] { return waiting.contains(handed_on) || running == 0; });
    auto result = waiting.extract(handed_on);
    if (result.empty()) return;
    lock.unlock();
    done(std::move(result.mapped()));
    lock.lock();
    ++handed_on;
    room.notify_one();
  }
}

}  // namespace fovea::client
