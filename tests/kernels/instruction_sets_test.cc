// Which instruction sets this run has tried the kernels on: tests that want others are skipped, or
// leave them out, so that the run has to say what it lacked.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"
#include "tests/kernels/variants.h"

namespace fovea::kernels {
namespace {

// One line each.
std::vector<std::string> NotRun() {
  std::vector<std::string> lines;
  const auto runs = [](simd::Isa isa) { return isa <= simd::BestIsa(); };
  if (!runs(simd::Isa::kAvx2)) lines.push_back("kernels on AVX2");
  if (!runs(simd::Isa::kAvx512)) lines.push_back("kernels on AVX-512");
  bool bf16 = false;
  if (runs(simd::Isa::kAvx512)) {
    const simd::ScopedIsa scope(simd::Isa::kAvx512);
    bf16 = simd::HasBf16Gemm();
  }
  if (!bf16) lines.push_back("kernels on bf16 products (AVX-512 bf16 or AMX)");
  if (!bf16) {
    lines.push_back("kernels on AMX");
  } else if (!simd::HasAmx()) {
    lines.push_back("kernels on AMX, but for kernels_test_on_emulated_amx");
  }
  return lines;
}

// The lines go to the end of the file that FOVEA_SKIPPED names, from where tests/run.sh prints
// them.
TEST(InstructionSetsTest, WhatThisRunLacksIsSaid) {
  const std::vector<std::string> not_run = NotRun();
  // What the other tests leave out is among them.
  for (const Variant& variant : AllVariants()) {
    EXPECT_TRUE(CannotRun(variant) == nullptr || !not_run.empty()) << variant.name;
  }
  for (const std::string& line : not_run) std::printf("not run: %s\n", line.c_str());
  const char* path = std::getenv("FOVEA_SKIPPED");
  if (path == nullptr) return;
  std::ofstream file(path, std::ios::app);
  for (const std::string& line : not_run) file << line << "\n";
  EXPECT_TRUE(file.flush().good()) << path;
}

// Or all that is run for its sake would be skipped.
TEST(InstructionSetsTest, AmxIsThereWhereItIsEmulated) {
  const char* preloaded = std::getenv("LD_PRELOAD");
  if (preloaded == nullptr || std::string(preloaded).find("amx_emulator") == std::string::npos) {
    GTEST_SKIP() << "it is not";
  }
  EXPECT_TRUE(simd::HasAmx() && simd::HasAmxInt8());
  if (simd::BestIsa() == simd::Isa::kAvx512 && simd::HasBf16Instructions()) {
    EXPECT_TRUE(simd::HasAmxTiles());
  }
}

}  // namespace
}  // namespace fovea::kernels
