// Streams that stay open without asking for anything: how many there may be.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "server/core/mutex.h"

namespace fovea {

// Limits idle streams, in total and for each connection, so that one caller cannot take all slots.
// Thread-safe.
class StreamPlaces {
 public:
  StreamPlaces(int most, int most_per_connection)
      : most_(most), most_per_connection_(most_per_connection) {}

  // Gives its place back when it goes. May outlive the StreamPlaces.
  using Place = std::shared_ptr<const void>;

  // Null where there is none left. `connection`: ServerContextBase::peer().
  Place Take(const std::string& connection) {
    // Before the lock, which a place takes when it goes.
    auto place = std::make_shared<TakenPlace>(taken_, connection);
    MutexLock lock(taken_->mutex);
    if (taken_->all >= most_) return nullptr;
    int& of_connection = taken_->by_connection[connection];
    if (of_connection >= most_per_connection_) return nullptr;
    ++of_connection;
    ++taken_->all;
    place->counts = true;
    return place;
  }

 private:
  struct Taken {
    Mutex mutex;
    int all ABSL_GUARDED_BY(mutex) = 0;
    std::unordered_map<std::string, int> by_connection ABSL_GUARDED_BY(mutex);

    void GiveBack(const std::string& connection) {
      MutexLock lock(mutex);
      --all;
      const auto found = by_connection.find(connection);
      if (--found->second == 0) by_connection.erase(found);
    }
  };

  struct TakenPlace {
    TakenPlace(std::shared_ptr<Taken> of, std::string name)
        : taken(std::move(of)), connection(std::move(name)) {}
    ~TakenPlace() {
      if (counts) taken->GiveBack(connection);
    }

    const std::shared_ptr<Taken> taken;
    const std::string connection;
    bool counts = false;
  };

  const int most_, most_per_connection_;
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace fovea
