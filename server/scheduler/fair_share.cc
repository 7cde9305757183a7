#include "server/scheduler/fair_share.h"

#include <algorithm>

#include "base/check.h"

namespace fovea {

FairShare::FairShare(Nanos quantum) : quantum_(quantum) { FOVEA_CHECK(quantum > 0); }

void FairShare::Add(Member member, int divisor) {
  FOVEA_CHECK(Find(member) == nullptr && divisor >= 1);
  accounts_.push_back({.member = member, .gain = std::max<Nanos>(1, quantum_ / divisor)});
}

void FairShare::Remove(Member member) {
  Account* account = Find(member);
  FOVEA_CHECK(account != nullptr);
  const size_t index = account - accounts_.data();
  accounts_.erase(accounts_.begin() + index);
  if (cursor_ > index) --cursor_;
  if (cursor_ >= accounts_.size()) cursor_ = 0;
}

FairShare::Member FairShare::Next(std::span<const Member> ready) {
  FOVEA_CHECK(!ready.empty());
  for (Account& account : accounts_) account.ready = false;
  Nanos rounds = kNever;  // until the first of them is in credit
  for (Member member : ready) {
    Account* account = Find(member);
    FOVEA_CHECK(account != nullptr);
    account->ready = true;
    rounds = std::min(rounds, -account->balance / account->gain + 1);
  }
  if (Account* account = FirstInCredit()) return account->member;

  for (Account& account : accounts_) {
    const Nanos gain = rounds * account.gain;
    if (account.ready) {
      account.balance += gain;
    } else if (account.balance < 0) {
      account.balance = std::min<Nanos>(0, account.balance + gain);
    }
  }
  cursor_ = (cursor_ + 1) % accounts_.size();
  return FirstInCredit()->member;
}

void FairShare::Charge(Member member, Nanos device_time) {
  if (Account* account = Find(member)) account->balance -= device_time;
}

FairShare::Account* FairShare::Find(Member member) {
  auto found = std::find_if(accounts_.begin(), accounts_.end(),
                            [&](const Account& account) { return account.member == member; });
  return found == accounts_.end() ? nullptr : &*found;
}

FairShare::Account* FairShare::FirstInCredit() {
  for (size_t step = 0; step < accounts_.size(); ++step) {
    const size_t index = (cursor_ + step) % accounts_.size();
    if (accounts_[index].ready && accounts_[index].balance > 0) {
      cursor_ = index;
      return &accounts_[index];
    }
  }
  return nullptr;
}

}  // namespace fovea
