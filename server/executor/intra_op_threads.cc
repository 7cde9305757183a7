#include "server/executor/intra_op_threads.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <system_error>

#include "kernels/threads.h"
#include "server/core/thread_scheduling.h"

namespace fovea {
namespace {

// Lower bound of the helpers that the calling thread has: those of its last parallel region.
thread_local int helpers = 0;

// Makes sure that the next parallel region of the calling thread gets `threads` threads: libgomp
// ends the process where it gets none. Throws std::system_error.
void MakeSureOf(int threads) {
  if (threads - 1 > helpers) kernels::ProbeThreads(threads - 1 - helpers);
  if (threads > 1) helpers = threads - 1;
}

}  // namespace

std::atomic<int> IntraOpThreads::all_kept_ = 0;

IntraOpThreads::IntraOpThreads(std::span<const int> per_batch, int instances)
    : elastic_(per_batch.size() > 1),
      most_(per_batch.back()),
      kept_((most_ - 1) * (elastic_ ? 1 : instances)) {
  all_kept_ += kept_;
}

IntraOpThreads::~IntraOpThreads() { all_kept_ -= kept_; }

void IntraOpThreads::Enter() const {
  RunAtOnce();  // the helpers too, which this thread starts
  kernels::ShortenTimeSlices();
  // set_num_threads also sets what threads start from that ATen has not met yet, and the last model
  // to call it wins: ATen is to meet this thread now, LibTorch's copy of that code and ours.
  (void)at::get_num_threads();
  at::internal::lazy_init_num_threads();
  try {
    // Begin does so again: until the first parallel region there are no helpers.
    kernels::ProbeThreads(most_ - 1);
    at::set_num_threads(most_);
  } catch (const std::system_error&) {
    at::set_num_threads(1);
  }
}

void IntraOpThreads::Begin(int threads) const {
  if (!elastic_) threads = most_;
  try {
    MakeSureOf(threads);
  } catch (const std::system_error&) {
    at::set_num_threads(1);
    throw;
  }
  if (at::get_num_threads() == threads) return;
  // The next parallel region ends the helpers that it does not need; with one thread there is none,
  // and they would spin where others are to run.
  if (threads == 1) Release();
  at::set_num_threads(threads);
}

void IntraOpThreads::End(int threads) const {
  if (elastic_ && threads > 1 && threads < most_) Release();
}

void IntraOpThreads::Idle() const {
  // libgomp counts one thread of the process besides the helpers.
  if (1 + all_kept_ > omp_get_num_procs()) Release();
}

void IntraOpThreads::Leave() {
  Release();
  at::set_num_threads(1);  // so that this thread starts no helpers later
  WaitForTimeSlices();
}

void IntraOpThreads::UseOne() {
  // Both copies of ATen have met the thread before it is set, as in Enter; and only this thread is.
  (void)at::get_num_threads();
  at::internal::lazy_init_num_threads();
  omp_set_num_threads(1);
}

void IntraOpThreads::Release() {
  omp_pause_resource_all(omp_pause_soft);
  helpers = 0;
}

}  // namespace fovea
