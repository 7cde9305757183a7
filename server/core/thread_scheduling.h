// Which threads the system lets run when there are more than cores.
#pragma once

#include <sched.h>

namespace fovea {

// This thread, and those that it starts from now on, interrupt no thread that runs when they wake
// up (Linux's SCHED_BATCH): they get a free core, or that of a thread whose time slice, some
// milliseconds, is over. For everything that is not a model. Where requests come faster than they
// can be answered, a thread that receives them wakes up thousands of times a second, and each time
// would take a core in the middle of an operator, which costs the model its caches as well.
inline void WaitForTimeSlices() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);  // always allowed
}

// Ends that, for this thread and those that it starts: for the models' threads.
inline void RunAtOnce() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_OTHER, &none);
}

// RunAtOnce for its own lifetime: for a thread that hands work to a model's thread and waits for it.
class AtOnce {
 public:
  AtOnce() : waited_(sched_getscheduler(0) == SCHED_BATCH) {
    if (waited_) RunAtOnce();
  }
  ~AtOnce() {
    if (waited_) WaitForTimeSlices();
  }
  AtOnce(const AtOnce&) = delete;
  AtOnce& operator=(const AtOnce&) = delete;

 private:
  const bool waited_;
};

}  // namespace fovea
