// A GPU that is none: its memory is the host's, and a thread does its work, later than it is given,
// as a GPU does. Who reads or writes too early what the work uses gets wrong numbers.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "server/core/clock.h"
#include "server/core/mutex.h"
#include "server/executor/gpu.h"

namespace fovea {

// What happens to the work of a fake GPU, and what was done. Shared with its streams; thread-safe.
struct FakeGpuState {
  std::atomic<int> delay_ms = 0;         // before each piece of work
  std::atomic<bool> paused = false;      // no piece of work begins
  std::atomic<bool> lost = false;        // work fails as LibTorch does after a CUDA error
  std::atomic<int64_t> free_bytes = -1;  // -1: not known
  std::atomic<int64_t> allocated = 0, reserved = 0;
  std::atomic<int> captures = 0, replays = 0;
};

class FakeGpu final : public Gpu {
 public:
  explicit FakeGpu(std::shared_ptr<FakeGpuState> state = std::make_shared<FakeGpuState>(),
                   int number = 0, int64_t max_bytes = std::numeric_limits<int64_t>::max())
      : Gpu(max_bytes), state_(std::move(state)), number_(number) {}

  int number() const override { return number_; }
  std::string name() const override { return "GPU " + std::to_string(number_) + " (fake)"; }
  std::string uuid() const override { return "GPU-fake-" + std::to_string(number_); }
  c10::Device device() const override { return at::kCPU; }
  std::optional<int64_t> AvailableMemory() const override {
    return state_->free_bytes < 0 ? std::nullopt : std::optional<int64_t>(state_->free_bytes);
  }
  AllocatorBytes AllocatorMemory() const override { return {state_->allocated, state_->reserved}; }
  at::Tensor HostBuffer(at::IntArrayRef sizes, at::ScalarType type) const override {
    return at::empty(sizes, type);
  }
  std::unique_ptr<GpuStream> MakeStream() const override {
    return std::make_unique<Stream>(state_);
  }

 private:
  struct Graph final : GpuGraph {
    explicit Graph(std::function<void()> captured) : work(std::move(captured)) {}
    const std::function<void()> work;
  };

  class Stream final : public GpuStream {
   public:
    explicit Stream(std::shared_ptr<FakeGpuState> state) : state_(std::move(state)) {}
    ~Stream() override {
      Push(nullptr);
      thread_.join();
    }

    void Enqueue(std::function<void()> work) override { Push(std::move(work)); }

    std::unique_ptr<GpuGraph> Capture(std::function<void()> work) override {
      ++state_->captures;
      // What it gives is to be there, of whatever numbers; the first replay makes others.
      Push(work);
      Await();
      return std::make_unique<Graph>(std::move(work));
    }
    void Replay(const GpuGraph& graph) override {
      ++state_->replays;
      Push(static_cast<const Graph&>(graph).work);
    }

    void Mark(GpuMark mark) override {
      Push([this, mark] { marks_[static_cast<int>(mark)] = SteadyClock().Now(); });
    }
    Nanos Between(GpuMark from, GpuMark to) const override {
      return marks_[static_cast<int>(to)] - marks_[static_cast<int>(from)];
    }

    void Await() override {
      MutexLock lock(mutex_);
      while (pending_ > 0) changed_.Wait(mutex_);
      if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    void AwaitIgnoringErrors() noexcept override {
      MutexLock lock(mutex_);
      while (pending_ > 0) changed_.Wait(mutex_);
      failure_ = nullptr;
    }

   private:
    void Push(std::function<void()> work) {
      MutexLock lock(mutex_);
      ++pending_;
      work_.push_back(std::move(work));
      changed_.NotifyAll();
    }

    // Until an empty piece of work comes. What follows a failure is not done.
    void Work() {
      while (true) {
        std::function<void()> work;
        bool skip;
        {
          MutexLock lock(mutex_);
          while (work_.empty()) changed_.Wait(mutex_);
          work = std::move(work_.front());
          work_.pop_front();
          skip = failure_ != nullptr;
        }
        if (work == nullptr) return;
        std::exception_ptr failure;
        if (!skip) failure = Do(work);
        work = nullptr;  // before anybody believes that it has gone
        MutexLock lock(mutex_);
        if (failure != nullptr) failure_ = failure;
        --pending_;
        changed_.NotifyAll();
      }
    }

    std::exception_ptr Do(const std::function<void()>& work) const {
      try {
        std::this_thread::sleep_for(std::chrono::milliseconds(state_->delay_ms));
        while (state_->paused) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (state_->lost) {
          throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 719,
                                      "CUDA error: unspecified launch failure");
        }
        work();
      } catch (...) {
        return std::current_exception();
      }
      return nullptr;
    }

    const std::shared_ptr<FakeGpuState> state_;
    std::array<Nanos, kGpuMarks> marks_{};  // written by the thread, read once it is awaited
    Mutex mutex_;
    CondVar changed_;
    int pending_ ABSL_GUARDED_BY(mutex_) = 0;
    std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
    std::exception_ptr failure_ ABSL_GUARDED_BY(mutex_);
    std::thread thread_{[this] { Work(); }};  // last: it uses the others
  };

  const std::shared_ptr<FakeGpuState> state_;
  const int number_;
};

}  // namespace fovea
