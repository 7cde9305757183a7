#include "server/repository/load_queue.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/status.h"
#include "server/core/server_stopping.h"

namespace fovea {

LoadQueue::LoadQueue(int threads) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  } catch (...) {
    Close();
    Join();
    throw;
  }
}

LoadQueue::~LoadQueue() {
  Close();
  Join();
}

void LoadQueue::Add(std::string model, Job job) {
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      if (waiting_.empty() && busy_.empty()) together_ = 0;
      waiting_.push_back({std::move(model), std::move(job)});
      together_ = std::max(together_, static_cast<int>(waiting_.size() + busy_.size()));
      changed_.NotifyAll();
      return;
    }
  }
  job(ServerStopping());
}

bool LoadQueue::RunHere(const std::string& model, const absl::Status& instead,
                        const std::function<void()>& job) {
  std::list<Entry> ended;
  {
    MutexLock lock(mutex_);
    ended = TakeAll(model);
  }
  for (const Entry& entry : ended) entry.job(instead);
  {
    MutexLock lock(mutex_);
    while (!stopping_ && busy_.count(model) > 0) changed_.Wait(mutex_);
    if (stopping_) return false;
    busy_.insert(model);
  }
  const absl::Cleanup free = [&] { Free(model); };  // a job that cannot have memory throws
  job();
  return true;
}

int LoadQueue::together() const {
  MutexLock lock(mutex_);
  return together_;
}

void LoadQueue::Close() {
  std::list<Entry> dropped;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
    changed_.NotifyAll();
  }
  for (const Entry& entry : dropped) entry.job(ServerStopping());
}

void LoadQueue::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::list<LoadQueue::Entry> LoadQueue::TakeAll(const std::string& model) {
  std::list<Entry> taken;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto entry = next++;
    if (entry->model == model) taken.splice(taken.end(), waiting_, entry);
  }
  return taken;
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

void LoadQueue::Free(const std::string& model) {
  MutexLock lock(mutex_);
  busy_.erase(model);
  changed_.NotifyAll();
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
    entry.job(absl::OkStatus());
    Free(entry.model);
  }
}

}  // namespace fovea
