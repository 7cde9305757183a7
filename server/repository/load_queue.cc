#include "server/repository/load_queue.h"

#include <utility>

namespace fovea {

LoadQueue::LoadQueue(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

LoadQueue::~LoadQueue() { Stop(); }

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

void LoadQueue::RunHere(const std::string& model, const std::function<void()>& job) {
  {
    MutexLock lock(mutex_);
    while (!busy_.insert(model).second) changed_.Wait(mutex_);
  }
  job();
  MutexLock lock(mutex_);
  busy_.erase(model);
  changed_.NotifyAll();
}

void LoadQueue::Stop() {
  std::list<Entry> dropped;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
    changed_.NotifyAll();
  }
  for (const Entry& entry : dropped) entry.job(/*stopping=*/true);
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
