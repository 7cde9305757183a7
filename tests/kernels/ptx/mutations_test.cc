// Faults that are put into what nvcc made of a kernel: each is found.
#include "tests/kernels/cuda_on_host/online.h"
// Above: before the kernels' headers.
#include <algorithm>
#include <string>
#include <string_view>

#include "kernels/attention/dense_attention/cuda_job.h"
#include "tests/kernels/ptx/shipped_kernels.h"
#include "tests/kernels/ptx/snippet.h"

namespace fovea::kernels {
namespace {

using T = c10::BFloat16;
constexpr int kDepth = 64;

// Dense attention of two blocks of queries and three tiles of keys.
class MutatedKernelTest : public testing::Test {
 protected:
  MutatedKernelTest() {
    at::manual_seed(17);
    const auto tokens = [](int64_t count) {
      return at::randn({1, 1, count, kDepth}).to(at::kBFloat16);
    };
    in_ = {tokens(70), tokens(130), tokens(130), 0.125, std::nullopt};
    output_ = cuda_on_host::OutputLike(in_.query);
    job_ = MakeJob<T>(in_, output_);
    name_ = cuda_on_host::KernelName("OnlineKernel", cuda_on_host::TypeName<T>(),
                                     cuda_on_host::TypeName<decltype(job_)>(), kDepth);
    text_ = ptx::ShippedText("dense_attention");
    // The kernel's own text, from its entry to the next one.
    do {
      begin_ = text_.find(".entry", begin_ + 1);
      end_ = std::min(text_.find(".entry", begin_ + 1), text_.size());
    } while (!IsMutated(text_.substr(begin_, text_.find('(', begin_) - begin_)));
  }

  static bool IsMutated(const std::string& mangled) {
    return mangled.find("I13__nv_bfloat16") != std::string::npos &&
           mangled.find("Li64E") != std::string::npos;
  }

  // Where the kernel has the n-th such instruction; npos if it has fewer.
  size_t PlaceOf(std::string_view instruction, int n) const {
    size_t at = begin_;
    for (int i = 0; i <= n; ++i) at = text_.find(instruction, at + 1);
    return at < end_ ? at : std::string::npos;
  }

  // What is wrong when the text is run: a failure's message, "wrong result", or nothing.
  std::string FaultOf(const std::string& text) {
    output_.fill_(777.0);
    const cuda::TileLayout<T, decltype(job_), kDepth> layout(job_.size);
    ptx::Module module(text);
    const ptx::Grid grid{job_.Blocks(layout.rows) * layout.chunks,
                         static_cast<unsigned>(layout.Threads()), layout.end};
    const std::string message =
        ptx::MessageOf([&] { ptx::Launch(module.Find(name_), grid, {ptx::ArgumentOf(job_)}); });
    if (!message.empty()) return message;
    const at::Tensor expected =
        DenseAttentionReference({in_.query.to(at::kDouble), in_.key.to(at::kDouble),
                                 in_.value.to(at::kDouble), in_.scale, std::nullopt});
    const bool right = at::allclose(output_.to(at::kDouble), expected, 0.0, 0.02);
    return right ? "" : "wrong result";
  }

  DenseAttentionInputs in_;
  at::Tensor output_;
  cuda::TokenSetsJob<T, cuda::OnlineSoftmax> job_{};
  std::string name_, text_;
  size_t begin_ = 0, end_ = 0;
};

TEST_F(MutatedKernelTest, IsRightAsItIs) { EXPECT_EQ(FaultOf(text_), ""); }

TEST_F(MutatedKernelTest, NeedsEachOfItsBarriers) {
  int barriers = 0;
  for (size_t at; (at = PlaceOf("bar.sync", barriers)) != std::string::npos; ++barriers) {
    std::string mutated = text_;
    mutated.replace(at, mutated.find(';', at) + 1 - at, "");
    const std::string fault = FaultOf(mutated);
    EXPECT_NE(fault.find("race: "), std::string::npos) << "barrier " << barriers << ": " << fault;
  }
  EXPECT_GE(barriers, 2);
}

TEST_F(MutatedKernelTest, NeedsItsWaitsForCopies) {
  int waits = 0;
  for (size_t at; (at = PlaceOf("cp.async.wait_group", waits)) != std::string::npos; ++waits) {
    std::string mutated = text_;
    mutated.replace(at, mutated.find(';', at) + 1 - at, "");
    EXPECT_NE(FaultOf(mutated), "") << "wait " << waits;
  }
  EXPECT_GE(waits, 1);
}

TEST_F(MutatedKernelTest, NeedsTheRightRowsOfMatrices) {
  const cuda::TileLayout<T, decltype(job_), kDepth> layout(job_.size);
  const std::string next_row = "+" + std::to_string(layout.KeyRow() * sizeof(T)) + "]";
  for (const char* load :
       {"ldmatrix.sync.aligned.m8n8.x4.shared", "ldmatrix.sync.aligned.m8n8.x4.trans.shared"}) {
    const size_t at = PlaceOf(load, 5);
    ASSERT_NE(at, std::string::npos) << load;
    for (const std::string& wrong : {next_row, std::string("+16]"), std::string("+2]")}) {
      std::string mutated = text_;
      mutated.replace(mutated.find(']', at), 1, wrong);
      EXPECT_NE(FaultOf(mutated), "") << load << wrong;
    }
  }
}

TEST_F(MutatedKernelTest, MustNotWriteBeyondItsOutput) {
  const size_t at = PlaceOf("st.global", 0);
  ASSERT_NE(at, std::string::npos);
  std::string mutated = text_;
  mutated.replace(mutated.find(']', at), 1, "+65536]");
  EXPECT_NE(FaultOf(mutated).find("out of bounds"), std::string::npos) << FaultOf(mutated);
}

}  // namespace
}  // namespace fovea::kernels
