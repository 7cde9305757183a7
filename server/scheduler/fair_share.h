// Whose turn it is on the device: deficit round robin on measured device time.
//   Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round Robin", SIGCOMM 1995.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/core/clock.h"

namespace fovea {

// Not thread-safe.
//
// Every member has a balance of device time. It may start work while its balance is positive, and
// is charged what the work took: the cost is known afterwards, so a balance may fall below zero,
// and that debt is paid by standing back. When none of those that have work has a positive balance,
// a round passes, in which each member gains one quantum. A member without work gains too, but not
// above zero: it does not save up turns, and its debts run out.
// So the device time of two members that always have work differs by at most a quantum and the cost
// of one batch of each, however many batches they run and whatever these cost. A member with a
// divisor gains so much less in a round: of two members that always have work, one of divisor 3
// uses a third of the device time of one of divisor 1.
class FairShare {
 public:
  using Member = uint64_t;

  explicit FairShare(Nanos quantum);

  // `divisor` >= 1.
  void Add(Member member, int divisor = 1);
  void Remove(Member member);

  // Who of `ready`, which is not empty and holds only members, is next. Stays the same until it is
  // charged or no longer ready.
  Member Next(std::span<const Member> ready);

  // The member used `device_time`; negative corrects an earlier charge. Nothing for an unknown one.
  void Charge(Member member, Nanos device_time);

 private:
  struct Account {
    Member member;
    Nanos gain;  // in a round
    Nanos balance = 0;
    bool ready = false;
  };
  Account* Find(Member member);
  // The first ready account with a positive balance, going round from the cursor; null if none.
  Account* FirstInCredit();

  const Nanos quantum_;
  std::vector<Account> accounts_;  // in the order of the turns
  size_t cursor_ = 0;              // whose turn it is; it ends when the balance is used up
};

}  // namespace fovea
