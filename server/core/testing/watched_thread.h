// A thread of which a test knows that it waits.
#pragma once

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace fovea {

class WatchedThread {
 public:
  explicit WatchedThread(std::function<void()> work)
      : thread_([this, work = std::move(work)] {
          id_ = gettid();
          work();
          ended_ = true;
        }) {}
  ~WatchedThread() { thread_.join(); }

  bool ended() const { return ended_; }

  // Returns once the work waits for something, what the system calls sleeping, or has ended;
  // whether it waits.
  bool WaitsBeforeItEnds() const {
    while (!ended_ && (id_ == 0 || !Sleeps(id_))) std::this_thread::yield();
    return !ended_;
  }

 private:
  static bool Sleeps(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string number, name, state;  // a thread that nobody named has its program's name, one word
    file >> number >> name >> state;
    return state == "S";
  }

  std::atomic<pid_t> id_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace fovea
