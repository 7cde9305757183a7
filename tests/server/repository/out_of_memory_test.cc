// docs/faults.md, row 39: a model's files for which there is no memory.
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/server/allocation_limit.h"
#include "tests/server/repository/repository_fixture.h"

namespace fovea {
namespace {

class RepositoryMemory : public RepositoryFixture {};

TEST_F(RepositoryMemory, AModelThatCannotBeReadFailsAloneAndCanBeLoadedLater) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  std::string labels;
  for (int i = 0; i < 100'000; ++i) labels += "a label of the cats\n";
  disk_.Write("cats/labels.txt", labels);
  models_.SetClasses(100'000);
  OpenExplicit({});
  {
    const AllocationLimit none_left(1 << 20);
    const absl::Status status = repository_->Load("cats", "");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(ReasonOf(status), "server.out_of_memory");
    EXPECT_TRUE(repository_->Load("dogs", "").ok());
    EXPECT_GE(none_left.refused(), 1);
  }
  EXPECT_TRUE(repository_->Load("cats", "").ok());
}

}  // namespace
}  // namespace fovea
