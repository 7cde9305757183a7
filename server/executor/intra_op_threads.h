// The OpenMP threads that help an instance's thread inside one operator.
//
// libgomp gives every thread that opens a parallel region helpers of its own, and keeps them.
// Between two operators they spin for work, unless all helpers in the process outnumber the cores:
// then each goes to sleep at every operator's end, and a batch of a vision transformer, some two
// hundred short operators, waits for as many wake-ups. So threads that have nothing to run give
// their helpers back.
//
// libgomp ends the process if the system refuses it a thread. So this starts and ends as many
// threads first (kernels/threads.h).
#pragma once

#include <atomic>
#include <span>

namespace fovea {

// Thread-safe; one per model, for as long as its instances may run.
class IntraOpThreads {
 public:
  // Counts what the model's instances would keep. `per_batch`: the threads that a batch may have,
  // ascending, the instance's own among them.
  IntraOpThreads(std::span<const int> per_batch, int instances);
  ~IntraOpThreads();
  IntraOpThreads(const IntraOpThreads&) = delete;
  IntraOpThreads& operator=(const IntraOpThreads&) = delete;

  // To be called first on a thread that runs the model. It may interrupt threads that have not
  // entered (core/thread_scheduling.h), and so may its helpers. Where the system refuses these,
  // the thread works alone until Begin.
  void Enter() const;
  // Before and after each batch, on a thread that has entered: its operators run on so many
  // threads. Where batches may have several numbers of threads, only one on all of them keeps its
  // helpers: it is always the first instance's, which also gets the next batch, and gives up what
  // that does not need. Begin throws std::system_error where the system refuses the helpers: who
  // waits for the batch, or measures it, counts on them.
  void Begin(int threads) const;
  void End(int threads) const;

  // To be called on an instance's thread that has had nothing to run for long: gives its helpers
  // back if the helpers of all models outnumber the cores. The next batch then starts new ones, and
  // may wait milliseconds until the system has moved them to idle cores.
  void Idle() const;

  // To be called on a thread that has entered and goes on without the model: gives its helpers
  // back, gets no others, and interrupts nobody any more.
  static void Leave();

  // On a thread of others that calls LibTorch now and then: its operators get no helpers.
  static void UseOne();

  // Gives the helpers of the calling thread back.
  static void Release();

 private:
  const bool elastic_;
  const int most_;
  const int kept_;
  static std::atomic<int> all_kept_;
};

}  // namespace fovea
