// Runs a CUDA thread block on the host, for tests of kernels where there is no GPU.
//
// Include it before the kernel's header. Every CUDA thread is a fiber that runs until it meets a
// barrier, so the result is deterministic; a barrier that some threads miss ends the test instead
// of hanging it. What is checked is the kernel's logic: its indices, barriers, shuffles and
// alignments. Data races between barriers and the hardware's own arithmetic are not.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#define __device__
#define __forceinline__ inline

namespace fovea::kernels::cuda_on_host {

inline constexpr unsigned kWarp = 32;

struct Index {
  unsigned x = 0;
};

// Threads wait until `size` of them have come.
struct Barrier {
  unsigned size = 0;
  unsigned arrived = 0;
  unsigned generation = 0;
};

// The block that is running: there is one at a time.
class Block {
 public:
  // Runs `body` as the threads 0 to `threads` - 1 of block `index`; returns when all have ended.
  // Throws std::runtime_error where they wait for each other for ever.
  static void Run(unsigned index, unsigned threads, const std::function<void()>& body) {
    Block block(index, threads, body);
    current_ = &block;
    block.Schedule();
    current_ = nullptr;
  }

  static Block& Current() { return *current_; }

  Index thread() const { return {running_}; }
  Index index() const { return {index_}; }
  Index size() const { return {static_cast<unsigned>(fibers_.size())}; }

  void Synchronise() { Wait(block_barrier_); }
  void SynchroniseWarp() { Wait(warp_barriers_[running_ / kWarp]); }

  // Publishes a value of this thread's and, when its warp has done so, calls read(at, lane), where
  // at(i) is the value of the warp's lane i.
  template <class T, class Read>
  auto Exchange(const T& value, const Read& read) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(Slot));
    std::memcpy(&slots_[running_], &value, sizeof(value));
    SynchroniseWarp();
    const auto result = read(
        [first = &slots_[running_ / kWarp * kWarp]](unsigned lane) {
          T other;
          std::memcpy(&other, first + lane, sizeof(other));
          return other;
        },
        running_ % kWarp);
    SynchroniseWarp();
    return result;
  }

  // Copies that threads do not wait for are made when they do, and not before.
  void CopyLater(void* to, const void* from, size_t bytes) {
    copies_[running_].groups.back().push_back({to, from, bytes});
  }
  void CommitCopies() { copies_[running_].groups.emplace_back(); }
  void WaitForCopies(size_t pending) {
    std::deque<std::vector<Copy>>& groups = copies_[running_].groups;
    while (groups.size() > pending + 1) {  // the last one is not committed
      for (const Copy& copy : groups.front()) std::memcpy(copy.to, copy.from, copy.bytes);
      groups.pop_front();
    }
  }

  bool Any(bool predicate) {
    if (predicate) any_ = true;
    Synchronise();
    const bool result = any_;
    Synchronise();
    any_ = false;
    Synchronise();
    return result;
  }

 private:
  struct Fiber {
    jmp_buf context;
    bool started = false;
    std::unique_ptr<char[]> stack;
    bool ended = false;
  };
  static constexpr size_t kStackBytes = 1 << 17;
  struct Slot {
    uint64_t words[4];
  };
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
  };
  struct Copies {
    std::deque<std::vector<Copy>> groups{1};
  };

  Block(unsigned index, unsigned threads, const std::function<void()>& body)
      : index_(index), body_(body), fibers_(threads), slots_(threads), copies_(threads) {
    block_barrier_.size = threads;
    warp_barriers_.assign(threads / kWarp, Barrier{kWarp, 0, 0});
    for (Fiber& fiber : fibers_) fiber.stack = std::make_unique<char[]>(kStackBytes);
  }

  static void Enter() {
    current_->body_();
    current_->fibers_[current_->running_].ended = true;
    current_->progress_ = true;
    _longjmp(current_->scheduler_, 1);
  }

  // Lets the thread that is to run go on, until it waits or ends. ucontext makes a stack; jumping
  // between those that exist takes no system call.
  void Continue(Fiber& fiber) {
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.started) _longjmp(fiber.context, 1);
    fiber.started = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = fiber.stack.get();
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, &Block::Enter, 0);
    setcontext(&context);
  }

  void Schedule() {
    for (bool left = true; left;) {
      left = false;
      progress_ = false;
      for (running_ = 0; running_ < fibers_.size(); ++running_) {
        if (fibers_[running_].ended) continue;
        left = true;
        Continue(fibers_[running_]);
      }
      if (left && !progress_) throw std::runtime_error("threads wait at different barriers");
    }
  }

  void Wait(Barrier& barrier) {
    if (++barrier.arrived == barrier.size) {
      barrier.arrived = 0;
      ++barrier.generation;
      progress_ = true;
      return;
    }
    const unsigned generation = barrier.generation;
    while (barrier.generation == generation) {
      if (_setjmp(fibers_[running_].context) == 0) _longjmp(scheduler_, 1);
    }
  }

  static inline Block* current_ = nullptr;
  unsigned index_;
  const std::function<void()>& body_;
  std::vector<Fiber> fibers_;
  std::vector<Slot> slots_;
  std::vector<Copies> copies_;
  Barrier block_barrier_;
  std::vector<Barrier> warp_barriers_;
  jmp_buf scheduler_;
  unsigned running_ = 0;
  bool progress_ = false;
  bool any_ = false;
};

}  // namespace fovea::kernels::cuda_on_host

#define threadIdx (::fovea::kernels::cuda_on_host::Block::Current().thread())
#define blockIdx (::fovea::kernels::cuda_on_host::Block::Current().index())
#define blockDim (::fovea::kernels::cuda_on_host::Block::Current().size())

inline void __syncthreads() { fovea::kernels::cuda_on_host::Block::Current().Synchronise(); }
inline void __syncwarp() { fovea::kernels::cuda_on_host::Block::Current().SynchroniseWarp(); }
inline int __syncthreads_or(int predicate) {
  return fovea::kernels::cuda_on_host::Block::Current().Any(predicate != 0);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int offset) {
  return fovea::kernels::cuda_on_host::Block::Current().Exchange(
      value,
      [offset](const auto& at, unsigned lane) { return at(lane ^ static_cast<unsigned>(offset)); });
}
inline unsigned __ballot_sync(unsigned, bool predicate) {
  return fovea::kernels::cuda_on_host::Block::Current().Exchange(
      predicate, [](const auto& at, unsigned) {
        unsigned bits = 0;
        for (unsigned i = 0; i < fovea::kernels::cuda_on_host::kWarp; ++i) {
          bits |= static_cast<unsigned>(at(i)) << i;
        }
        return bits;
      });
}
inline bool __any_sync(unsigned mask, bool predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
