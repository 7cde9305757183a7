#include "server/lifecycle/signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "server/core/mutex.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;

TEST(SignalsTest, AHangupOrALeaveIsNoStop) {
  BlockSignals();
  Mutex mutex;
  CondVar changed;
  std::vector<std::string> heard;
  const auto hear = [&](std::string what) {
    MutexLock lock(mutex);
    heard.push_back(std::move(what));
    changed.NotifyAll();
  };
  SignalThread signals({.on_stop = [&](int count) { hear("stop " + std::to_string(count)); },
                        .on_hangup = [&] { hear("hangup"); },
                        .on_leave = [&] { hear("leave"); }});
  size_t sent = 0;
  for (const int number : {SIGHUP, SIGUSR1, SIGTERM, SIGHUP, SIGINT}) {
    ASSERT_EQ(kill(getpid(), number), 0);
    ++sent;
    MutexLock lock(mutex);
    while (heard.size() < sent) changed.Wait(mutex);
  }
  EXPECT_THAT(heard, ElementsAre("hangup", "leave", "stop 1", "hangup", "stop 2"));
}

}  // namespace
}  // namespace fovea
