// Every backbone with every attention: which pairs run, and why the others are refused when the
// model loads. docs/models/pairs.md carries the table, which this test compares with what it finds;
// with FOVEA_WRITE_PAIRS=1 it writes it there instead. At two further input sizes a third of the
// pairs, spread over all backbones and attentions, and all with FOVEA_ALL_PAIRS=1.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dispatch.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/registry/backbones.h"
#include "tests/model_zoo/tried_models.h"

namespace fovea::models {
namespace {

// The reasons that model_zoo/attention/README.md allows, by a word of their sentence.
std::string Reason(const std::string& error) {
  const std::pair<const char*, const char*> reasons[] = {
      {"lie on a map", "prefix tokens"},
      {"a query sees only", "keys"},
      {" heads", "heads"},
      {"has no attention", "no attention"},
  };
  for (const auto& [words, reason] : reasons) {
    if (error.find(words) != error.npos) return reason;
  }
  return "";
}

at::Tensor Logits(const Backbone& backbone, const at::Tensor& pixels) {
  ForwardContext context;
  return backbone.forward(pixels, context).at(0).to(at::kFloat);
}

// Of the logits' spread: some hundred fp32 roundings, through as many as forty blocks.
constexpr double kBound = 1e-4;

// Which of two keys with nearly the same logit k-NN attention keeps is decided by rounding. How far
// that moves the logits: the farthest of eight draws of noise of a few roundings of the pixels, or
// the first that is beyond `enough`.
double MovedByRounding(const Backbone& backbone, const at::Tensor& pixels, const at::Tensor& logits,
                       double enough) {
  const kernels::ScopedForcedImplementation forced(kernels::Implementation::kReference);
  double farthest = 0;
  for (uint64_t seed = 100; seed < 108 && farthest <= enough; ++seed) {
    const at::Tensor moved = pixels + 0x1p-18 * Noise(pixels, seed);
    farthest = std::max(farthest, Distance(Logits(backbone, moved), logits));
  }
  return farthest;
}

// What a test that tries anything may set aside. Of 800 runs rounding decided 26 to 72, of those of
// a part of the backbones up to a ninth, and all pixels of 1 to 5 pairs, as an AMD EPYC holds to
// one instruction set or another (tests/instruction_sets.sh, 2026-11-23; 2026-11-25); of a part 42
// of 237 where AMX multiplies fp32 as bf16x3, in linear layers and in attention (2026-11-27). A
// third of a part is some eighty runs.
constexpr int kMinRunsPerSetAside = 10, kMinRunsOfAPartPerSetAside = 4;
constexpr size_t kMostSetAsideWhole = 8, kMostOfAPartSetAsideWhole = 4;  // pairs

struct Outcome {
  std::string reason;  // why the pair is refused; "runs" where it is not
  at::Tensor logits;   // of the first pixels, by the reference kernels
};

// How often pixels were set aside because rounding decided between two keys.
struct Count {
  int runs = 0;
  int set_aside = 0;
  std::vector<std::string> all_set_aside;  // pairs
};

// The model at an input size, its numbers drawn: those that do not follow from the size are the
// same for all. Throws c10::ValueError where the pair is refused.
std::shared_ptr<Backbone> Make(const BackboneEntry& entry, const std::string& attention,
                               const ImageSize& size) {
  ModelDescription description;
  description.backbone = entry.name;
  description.attention = {attention};
  description.image_height = size.height;
  description.image_width = size.width;
  std::shared_ptr<Backbone> backbone = entry.make_tiny(description);
  Enliven(*backbone, attention);
  backbone->eval();
  return backbone;
}

// Sizes at which a model is tried: its own (none, as descriptions say it), one whose maps are
// divided by the windows that divide its own, and one whose maps are not.
enum class Size { kOwn, kDivided, kUndivided };

ImageSize SizeOf(const BackboneEntry& entry, Size size) {
  if (size == Size::kOwn) return {};
  const bool divided = size == Size::kDivided;
  const int64_t own = entry.make_tiny({.backbone = entry.name})->info().image_height;
  // Of windows of 7 and strides up to 32; of 4, up to 16.
  if (own >= 224) return divided ? ImageSize{224, 448} : ImageSize{160, 192};
  return divided ? ImageSize{own, 2 * own} : ImageSize{own / 2, own * 3 / 4};
}

// A pair that runs gives, prepared and with the fastest kernels, what it gives trainable with the
// reference ones; at another size than its own, prepared as a plan of `loaded`, which the try at
// its own size leaves there. Pixels that leave a selection to rounding are set aside, and others
// drawn; where all do, as in a deep model of many tokens, the last ones may be off as far as
// rounding moves them.
Outcome Try(const BackboneEntry& entry, const std::string& attention, const ImageSize& size,
            Count& count) {
  const std::string name = entry.name + " " + attention + " " + std::to_string(size.height) + "x" +
                           std::to_string(size.width);
  SCOPED_TRACE(name);
  const at::NoGradGuard no_grad;
  Outcome outcome{.reason = "runs"};
  constexpr uint64_t kFirst = 3, kLast = 7;  // seeds
  for (uint64_t seed = kFirst; seed <= kLast; ++seed) {
    std::shared_ptr<Backbone> loaded, backbone;
    try {
      loaded = Make(entry, attention, {});
      backbone = size == ImageSize{} ? loaded : Make(entry, attention, size);
    } catch (const c10::ValueError& error) {
      const std::string reason = Reason(error.msg());
      // What runs at a model's own size runs at others, but where k is more than a smaller map has.
      EXPECT_TRUE(loaded == nullptr ? reason != "" : reason == "keys") << error.msg();
      return {.reason = reason};
    }
    const ModelInfo& info = backbone->info();
    const at::Tensor pixels = Noise(at::empty({1, 3, info.image_height, info.image_width}), seed);
    at::Tensor expected;
    {
      const kernels::ScopedForcedImplementation forced(kernels::Implementation::kReference);
      expected = Logits(*backbone, pixels);
    }
    if (seed == kFirst) outcome.logits = expected;
    loaded->Prepare({});
    if (backbone != loaded) {
      backbone->ShareWeights(*loaded);
      backbone->Prepare({});
    }
    const at::Tensor logits = Logits(*backbone, pixels);
    EXPECT_TRUE(logits.isfinite().all().item<bool>());
    const double error = Distance(logits, expected);
    if (std::getenv("FOVEA_PRINT_PAIRS") != nullptr) {
      std::printf("%s %.1e\n", name.c_str(), error);
      std::fflush(stdout);
    }
    ++count.runs;
    const bool selects = attention.find("knn") != attention.npos;
    double bound = kBound;
    if (error > kBound && selects) {
      const double moved = MovedByRounding(*Make(entry, attention, size), pixels, expected,
                                           seed < kLast ? kBound : INFINITY);
      if (moved > kBound) {
        ++count.set_aside;
        if (seed < kLast) continue;
        count.all_set_aside.push_back(name);
        bound = 2 * moved;
      }
    }
    EXPECT_LE(error, bound);
    break;
  }
  return outcome;
}

// Attentions that differ on paper differ in the logits by far more than the bound, or it would let
// any of them through.
void ExpectThatAttentionShows(const std::string& backbone, const std::vector<Outcome>& outcomes) {
  const auto logits = [&](const std::string& attention) {
    const auto found = std::ranges::find(TriedAttentions(), attention);
    return outcomes.at(found - TriedAttentions().begin()).logits;
  };
  const at::Tensor dense = logits("dense");
  for (const char* other : {"dense:temperature=0.5", "knn:k=0.5"}) {
    EXPECT_GT(Distance(logits(other), dense), 10 * kBound) << backbone << " " << other;
  }
}

std::string Quoted(const std::string& attention) { return "`" + attention + "`"; }

void Append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

// "`axial`, `pale` (heads); `conv` (prefix tokens)", or "runs": the pairs of one line by outcome.
std::string ByReason(const std::vector<std::string>& outcomes) {
  std::vector<std::pair<std::string, std::string>> reasons;  // and the attentions
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i] == "runs") continue;
    auto found =
        std::ranges::find(reasons, outcomes[i], &std::pair<std::string, std::string>::first);
    if (found == reasons.end()) found = reasons.insert(found, {outcomes[i], ""});
    Append(found->second, Quoted(TriedAttentions()[i]));
  }
  std::string text;
  for (const auto& [reason, attentions] : reasons) {
    text += (text.empty() ? "" : "; ") + attentions + " (" + reason + ")";
  }
  return text.empty() ? "none" : text;
}

// What became of every attention in one backbone, in the order of TriedAttentions().
struct Row {
  std::string backbone;
  std::vector<std::string> outcomes;
};

// Every `parts`th backbone from `part` on. The rows of further sizes have the pairs that were
// tried.
std::vector<Row> TryAll(Size size, size_t part = 0, size_t parts = 1) {
  const bool all = size == Size::kOwn || std::getenv("FOVEA_ALL_PAIRS") != nullptr;
  Count count;
  std::vector<Row> rows;
  for (size_t i = part; i < Backbones().size(); i += parts) {
    const BackboneEntry& entry = Backbones()[i];
    if (entry.make_tiny({.backbone = entry.name})->info().attention.empty()) continue;
    std::vector<Outcome> tried;
    Row row{.backbone = entry.name};
    for (size_t j = 0; j < TriedAttentions().size(); ++j) {
      constexpr size_t kOneIn = 3;
      if (!all && (i + j) % kOneIn != 0) continue;
      tried.push_back(Try(entry, TriedAttentions()[j], SizeOf(entry, size), count));
      row.outcomes.push_back(tried.back().reason);
    }
    if (all) ExpectThatAttentionShows(entry.name, tried);
    rows.push_back(std::move(row));
  }
  std::printf("%d of %d runs set aside: rounding decided between two keys\n", count.set_aside,
              count.runs);
  EXPECT_LE(count.set_aside,
            count.runs / (parts == 1 ? kMinRunsPerSetAside : kMinRunsOfAPartPerSetAside));
  for (const std::string& pair : count.all_set_aside) {
    std::printf("%s: all of its pixels, the last compared with what rounding moves\n",
                pair.c_str());
  }
  EXPECT_LE(count.all_set_aside.size(),
            parts == 1 ? kMostSetAsideWhole : kMostOfAPartSetAsideWhole);
  return rows;
}

// One line for all backbones that behave alike.
std::string Table(const std::vector<Row>& rows) {
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;  // backbones, outcomes
  for (const Row& row : rows) {
    auto same =
        std::ranges::find_if(lines, [&](const auto& line) { return line.second == row.outcomes; });
    if (same == lines.end()) same = lines.insert(same, {"", row.outcomes});
    Append(same->first, row.backbone);
  }
  std::string all;
  for (const std::string& attention : TriedAttentions()) Append(all, Quoted(attention));
  std::ostringstream table;
  table << "Tried: " << all << ".\n\n| backbones | all but |\n|---|---|\n";
  for (const auto& [backbones, outcomes] : lines) {
    table << "| " << backbones << " | " << ByReason(outcomes) << " |\n";
  }
  return table.str();
}

// A try allocates and frees hundreds of MiB: a fifth of its time went into fetching pages anew.
class KeptPages : public ::testing::Environment {
  void SetUp() override {
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
  }
};
[[maybe_unused]] ::testing::Environment* const kept_pages =
    ::testing::AddGlobalTestEnvironment(new KeptPages);

constexpr const char* kBegin = "<!-- pairs: written by pairs_test -->\n";
constexpr const char* kEnd = "<!-- end of pairs -->\n";

TEST(PairsTest, EveryBackboneTimesEveryAttention) {
  const std::string path = FOVEA_PAIRS;
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string page = text.str();
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  ASSERT_NE(begin, page.npos) << path;
  ASSERT_NE(end, page.npos) << path;
  const size_t table_begin = begin + std::string(kBegin).size();
  const std::string found = Table(TryAll(Size::kOwn));
  if (std::getenv("FOVEA_WRITE_PAIRS") != nullptr) {
    std::ofstream(path) << page.substr(0, table_begin) << found << page.substr(end);
    return;
  }
  EXPECT_EQ(page.substr(table_begin, end - table_begin), found)
      << "FOVEA_WRITE_PAIRS=1 writes what is found";
}

TEST(PairsTest, EveryBackboneTimesEveryAttentionAtASizeThatTheyDoNotDivide) {
  TryAll(Size::kUndivided);
}

// Twice the pixels take most of this file's time: in parts, for the shards.
class PairsAtADividedSize : public ::testing::TestWithParam<size_t> {
 public:
  static constexpr size_t kParts = 4;
};

TEST_P(PairsAtADividedSize, EveryBackboneTimesEveryAttention) {
  TryAll(Size::kDivided, GetParam(), kParts);
}

INSTANTIATE_TEST_SUITE_P(Parts, PairsAtADividedSize,
                         ::testing::Range<size_t>(0, PairsAtADividedSize::kParts));

}  // namespace
}  // namespace fovea::models
