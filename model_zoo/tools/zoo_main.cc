// fovea-zoo [OPTIONS] [MODEL...]: what the models of the zoo cost, beside what their papers print,
// or with any attention. `fovea zoo` runs it: a program of its own, so that the command line does
// not have to load LibTorch.
#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/did_you_mean.h"
#include "base/lost_output.h"
#include "kernels/memory/memory_ledger.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/costs/counted_model.h"
#include "model_zoo/costs/papers.h"
#include "model_zoo/measures/pass_profile.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/registry/heads.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/tools/profile_rows.h"
#include "model_zoo/tools/zoo_rows.h"

namespace fovea::models {
namespace {

constexpr char kUsage[] =
    R"(What the architectures cost: parameters and multiply-adds, beside what papers print.

Usage: fovea zoo [OPTIONS] [MODEL...]

Arguments:
  MODEL                     Names of the registry (default: all)

Options:
  --memory                  Also the peak of a pass's tensors at batch 1 and 16
  --attention TEXT          With this attention in place of the papers' (repeatable; needs a MODEL)
  --image-size N|HxW        With so many pixels in place of the published size (needs a MODEL)
  --heads                   The papers' detectors and segmenters in place of the classifiers
  --head NAME               With this head, by mmdetection's conventions (needs a MODEL); after
                            --heads those of the papers that have it
  --profile                 Where a pass's time goes, by what its operators do (needs a MODEL)
  --precision fp32|bf16|int8  Of the profiled passes (fp32)
  --batch N                 Images in each profiled pass (1)
  --json                    Print JSON instead of a table
  -h,--help                 Print this help message and exit

Examples:
  fovea zoo
  fovea zoo --memory swin_tiny_patch4_window7_224
  fovea zoo --memory --attention dense --attention key_only --image-size 448 linglo_b0
  fovea zoo --profile --precision bf16 --batch 8 deit_tiny_patch16_224
  fovea zoo --heads
  fovea zoo --head retinanet --attention dense --attention key_only --image-size 800x1344 linglo_b0
)";

// What models run in on the CPU, as --precision has it.
struct ProfiledPrecision {
  std::string_view name;
  Precision precision;
};
constexpr ProfiledPrecision kProfiled[] = {
    {"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}, {"int8", Precision::kInt8}};

struct Options {
  bool memory = false;
  bool json = false;
  std::vector<std::string> attentions;  // empty: the published one, and those of the papers' tables
  ImageSize image_size;                 // 0: the published one
  bool profile = false;
  std::optional<ProfiledPrecision> precision;  // nothing: fp32
  std::optional<int64_t> batch;                // nothing: 1
  bool heads = false;                          // those of the papers
  std::string head;                            // empty: none; of the papers: any
  std::vector<std::string> names;              // empty: all
};

// Ends the program with 2: what was asked for cannot be.
[[noreturn]] void Refuse(const std::string& why) {
  std::fprintf(stderr, "fovea-zoo: %s\n", why.c_str());
  std::exit(2);
}

int64_t PeakBytes(const Model& model, int64_t images) {
  const ModelInfo& info = model.info();
  const at::Tensor pixels = at::randn({images, 3, info.image_height, info.image_width});
  FullestPass context;
  const kernels::MemoryLedger ledger;
  model.Run(pixels, context);
  return ledger.peak_bytes();
}

Row Measure(const CountedModel& counted, const Options& options) {
  const std::unique_ptr<Model> model = LoadModel(Describe(counted));
  const ModelInfo& info = model->info();
  Row row = {.backbone = std::string(counted.backbone),
             .attention = info.attention,
             .head = std::string(counted.head),
             .size = {info.image_height, info.image_width},
             .parameters_m = static_cast<double>(info.parameters) / 1e6,
             .multiply_adds_g = static_cast<double>(MultiplyAdds(*model)) / 1e9};
  if (options.memory) {
    model->Prepare(c10::kCPU, Precision::kFp32);
    row.peak_1 = PeakBytes(*model, 1);
    row.peak_16 = PeakBytes(*model, 16);
  }
  return row;
}

bool IsAsked(const Options& options, std::string_view backbone) {
  return options.names.empty() || std::ranges::find(options.names, backbone) != options.names.end();
}

std::vector<Row> Rows(const Options& options) {
  std::vector<Row> rows;
  // Several papers print one model: it is measured once.
  using Key = std::tuple<std::string_view, std::string_view, std::string_view, ImageSize>;
  std::map<Key, Row> measured;
  const auto add = [&](const CountedModel& counted, const PrintedCosts* printed) {
    const Key key = {counted.backbone, counted.attention, counted.head, counted.size};
    auto found = measured.find(key);
    if (found == measured.end()) found = measured.emplace(key, Measure(counted, options)).first;
    rows.push_back(found->second);
    rows.back().printed = printed;
  };
  if (options.heads) {
    for (const PrintedCosts& row : CostsWithHeadsInPapers()) {
      if (!IsAsked(options, row.backbone)) continue;
      if (!options.head.empty() && row.head != options.head) continue;
      add(ModelOf(row), &row);
    }
    if (rows.empty()) Refuse("no paper has such a detector or segmenter");
    return rows;
  }
  for (const BackboneEntry& entry : Backbones()) {
    if (!IsAsked(options, entry.name)) continue;
    if (entry.make(Describe({.backbone = entry.name}))->parameters().empty()) continue;  // no model
    const CountedModel plain = {
        .backbone = entry.name, .head = options.head, .size = options.image_size};
    for (const std::string& attention : options.attentions) {
      CountedModel counted = plain;
      counted.attention = attention;
      add(counted, nullptr);
    }
    if (!options.attentions.empty()) continue;
    bool printed = false;
    for (const PrintedCosts& row : CostsInPapers()) {
      // Papers print those of the published size.
      if (options.image_size != ImageSize() || !options.head.empty()) break;
      if (row.backbone != entry.name) continue;
      CountedModel counted = plain;
      counted.attention = row.attention;
      add(counted, &row);
      printed = true;
    }
    if (!printed) add(plain, nullptr);
  }
  return rows;
}

// Above 0; nothing where the text is no such number.
std::optional<int64_t> Count(const std::string& text) {
  int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || rest != end || count <= 0) return std::nullopt;
  return count;
}

Options Parse(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (++i == arguments.size()) Refuse(argument + " needs a value");
      return arguments[i];
    };
    if (argument == "--help" || argument == "-h") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    } else if (argument == "--memory") {
      options.memory = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--attention") {
      options.attentions.push_back(value());
    } else if (argument == "--image-size") {
      const std::string& text = value();
      const size_t by = text.find('x');
      const std::optional<int64_t> height = Count(text.substr(0, by)),
                                   width = by == text.npos ? height : Count(text.substr(by + 1));
      if (!height || !width) Refuse("--image-size '" + text + "' is not a number of pixels");
      options.image_size = {*height, *width};
    } else if (argument == "--profile") {
      options.profile = true;
    } else if (argument == "--precision") {
      const std::string& text = value();
      const auto found = std::ranges::find(kProfiled, text, &ProfiledPrecision::name);
      if (found == std::end(kProfiled)) Refuse("--precision is fp32, bf16 or int8, not " + text);
      options.precision = *found;
    } else if (argument == "--batch") {
      options.batch = Count(value());
      if (!options.batch) Refuse("--batch is a number of images");
    } else if (argument == "--heads") {
      options.heads = true;
    } else if (argument == "--head") {
      options.head = value();
      const auto head = std::ranges::find(Heads(), options.head, &HeadEntry::name);
      if (head == Heads().end() || head->make == nullptr) {
        Refuse("there is no head '" + options.head + "' of detection or segmentation" +
               DidYouMean(options.head, Heads(), &HeadEntry::name));
      }
    } else if (argument.starts_with("-")) {
      Refuse("unknown option '" + argument + "'; `fovea zoo --help` lists them");
    } else if (FindBackbone(argument) == nullptr) {
      Refuse("there is no backbone '" + argument + "'" +
             DidYouMean(argument, Backbones(), &BackboneEntry::name));
    } else {
      options.names.push_back(argument);
    }
  }
  // Not every backbone takes every attention and size: one that is named is meant.
  const bool changed = !options.attentions.empty() || options.image_size != ImageSize();
  if (options.heads && changed) {
    Refuse("--heads counts what the papers have: without --attention and --image-size");
  }
  if (!options.heads && options.names.empty() && (changed || !options.head.empty())) {
    Refuse("--attention, --image-size and --head need a MODEL");
  }
  if (options.profile && (options.names.empty() || options.heads || options.memory)) {
    Refuse("--profile needs a MODEL, and goes without --heads and --memory");
  }
  if (!options.profile && (options.precision || options.batch)) {
    Refuse("--precision and --batch say what --profile runs");
  }
  return options;
}

void Profile(const CountedModel& counted, const Options& options) {
  const std::unique_ptr<Model> model = LoadModel(Describe(counted));
  const ProfiledPrecision precision = options.precision.value_or(kProfiled[0]);
  const int64_t batch = options.batch.value_or(1);
  model->Prepare(c10::kCPU, precision.precision);
  const ModelInfo& info = model->info();
  constexpr int kPasses = 25;
  const at::Tensor pixels = at::randn({batch, 3, info.image_height, info.image_width});
  PrintProfile({std::string(counted.backbone), info.attention, std::string(precision.name), batch},
               ProfilePass(*model, pixels, kPasses), options.json);
}

void ProfileAll(const Options& options) {
  for (const std::string& name : options.names) {
    CountedModel counted = {.backbone = name, .head = options.head, .size = options.image_size};
    if (options.attentions.empty()) Profile(counted, options);
    for (const std::string& attention : options.attentions) {
      counted.attention = attention;
      Profile(counted, options);
    }
  }
}

int Main(int argc, char** argv) {
  const Options options = Parse({argv + 1, argv + argc});
  std::vector<Row> rows;
  try {
    if (options.profile) {
      ProfileAll(options);
      return 0;
    }
    rows = Rows(options);
  } catch (const c10::Error& error) {
    Refuse(error.what_without_backtrace());
  }
  if (options.json) {
    PrintJson(rows);
  } else {
    PrintTable(rows);
  }
  return 0;
}

}  // namespace
}  // namespace fovea::models

int main(int argc, char** argv) {
  fovea::FailWhereOutputIsLost("fovea-zoo");
  return fovea::models::Main(argc, argv);
}
