#include "server/repository/load_queue.h"

#include <utility>

namespace fovea {

LoadQueue::LoadQueue(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

LoadQueue::~LoadQueue() {
  Close();
  Join();
}

void LoadQueue::Add(std::string model, Job job) {
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      waiting_.push_back({std::move(model), std::move(job)});
      changed_.NotifyAll();
      return;
    }
  }
  job(/*stopping=*/true);
}

bool LoadQueue::RunHere(const std::string& model, const std::function<void()>& job) {
  {
    MutexLock lock(mutex_);
    while (!stopping_ && busy_.count(model) > 0) changed_.Wait(mutex_);
    if (stopping_) return false;
    busy_.insert(model);
  }
  job();
  MutexLock lock(mutex_);
  busy_.erase(model);
  changed_.NotifyAll();
  return true;
}

void LoadQueue::Close() {
  std::list<Entry> dropped;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
    changed_.NotifyAll();
  }
  for (const Entry& entry : dropped) entry.job(/*stopping=*/true);
}

void LoadQueue::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool LoadQueue::TakeNext(Entry* entry) {
  for (auto next = waiting_.begin(); next != waiting_.end(); ++next) {
    if (!busy_.insert(next->model).second) continue;
    *entry = std::move(*next);
    waiting_.erase(next);
    return true;
  }
  return false;
}

void LoadQueue::Work() {
  while (true) {
    Entry entry;
    {
      MutexLock lock(mutex_);
      while (!TakeNext(&entry)) {
        if (stopping_) return;
        changed_.Wait(mutex_);
      }
    }
    entry.job(/*stopping=*/false);
    MutexLock lock(mutex_);
    busy_.erase(entry.model);
    changed_.NotifyAll();
  }
}

}  // namespace fovea
