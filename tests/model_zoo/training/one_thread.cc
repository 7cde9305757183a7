// Every test of this binary on one thread: sums come in one order, and threads that wait for each
// other in a busy loop cost most where tests run side by side.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace {

class OneThread final : public ::testing::Environment {
 public:
  void SetUp() override { at::set_num_threads(1); }
};

[[maybe_unused]] const auto* const kOneThread =
    ::testing::AddGlobalTestEnvironment(new OneThread);  // owned by GoogleTest

}  // namespace
