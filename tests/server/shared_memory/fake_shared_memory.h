// Shared memory objects that a test holds in its own memory.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "server/core/mutex.h"
#include "server/shared_memory/shared_memory_object.h"

namespace fovea {

// Thread-safe. Copies share the bytes, as processes do.
class FakeSharedMemory final {
 public:
  // An object that the opener finds from now on.
  void Create(const std::string& key, std::string bytes) {
    const MutexLock lock(state_->mutex);
    state_->objects[key] = std::move(bytes);
  }
  std::string Bytes(const std::string& key) const {
    const MutexLock lock(state_->mutex);
    return state_->objects.at(key);
  }
  int opened() const {
    const MutexLock lock(state_->mutex);
    return state_->opened;
  }
  // Called while a write is under way, without a lock.
  void OnWrite(std::function<void()> hook) {
    const MutexLock lock(state_->mutex);
    state_->on_write = std::move(hook);
  }

  // The same of a read.
  void OnRead(std::function<void()> hook) {
    const MutexLock lock(state_->mutex);
    state_->on_read = std::move(hook);
  }

  OpenSharedMemory Opener() const {
    return [state = state_](
               const std::string& key) -> absl::StatusOr<std::unique_ptr<SharedMemoryObject>> {
      const MutexLock lock(state->mutex);
      ++state->opened;
      if (!state->objects.contains(key)) return InvalidArgument("shared_memory.key", "none");
      return std::make_unique<Object>(state, key);
    };
  }

 private:
  struct State {
    Mutex mutex;
    std::map<std::string, std::string> objects ABSL_GUARDED_BY(mutex);
    std::function<void()> on_write ABSL_GUARDED_BY(mutex);
    std::function<void()> on_read ABSL_GUARDED_BY(mutex);
    int opened ABSL_GUARDED_BY(mutex) = 0;
  };

  class Object final : public SharedMemoryObject {
   public:
    Object(std::shared_ptr<State> state, std::string key)
        : state_(std::move(state)), key_(std::move(key)) {}

    absl::StatusOr<uint64_t> SizeBytes() const override {
      const MutexLock lock(state_->mutex);
      return state_->objects.at(key_).size();
    }
    absl::Status Read(uint64_t offset, std::span<std::byte> to) const override {
      std::function<void()> hook;
      {
        const MutexLock lock(state_->mutex);
        hook = state_->on_read;
      }
      if (hook) hook();
      const MutexLock lock(state_->mutex);
      const std::string& bytes = state_->objects.at(key_);
      if (offset + to.size() > bytes.size()) return TooSmall();
      std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + offset, to.size(), to.data());
      return absl::OkStatus();
    }
    absl::Status Write(uint64_t offset, std::string_view bytes) override {
      std::function<void()> hook;
      {
        const MutexLock lock(state_->mutex);
        hook = state_->on_write;
      }
      if (hook) hook();
      const MutexLock lock(state_->mutex);
      std::string& object = state_->objects.at(key_);
      if (offset + bytes.size() > object.size()) return TooSmall();
      object.replace(offset, bytes.size(), bytes);
      return absl::OkStatus();
    }

   private:
    static absl::Status TooSmall() {
      return InvalidArgument("shared_memory.object_too_small", "shorter");
    }
    const std::shared_ptr<State> state_;
    const std::string key_;
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace fovea
