#include "model_zoo/training/comparison/comparison.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "kernels/memory/memory_ledger.h"
#include "model_zoo/costs/operation_counter.h"
#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"

namespace fovea::models::training {
namespace {

// One model between its loading and its last run.
class Contestant {
 public:
  explicit Contestant(const std::filesystem::path& folder) {
    const ModelDescription description = DescribeModelFolder(folder);
    model_ = LoadModel(description);
    const ModelInfo& info = model_->info();
    result_ = {.folder = folder,
               .backbone = info.backbone,
               .attention = info.attention,
               .parameters = info.parameters};
    for (size_t i = 0; i < kComparedBatches.size(); ++i) {
      pixels_[i] = at::randn({kComparedBatches[i], 3, info.image_height, info.image_width});
    }
    {
      // Packed layers are beyond what it can count.
      const OperationCounter counter;
      Run(0);
      result_.multiply_adds = counter.multiply_adds();
    }
    model_->Prepare(c10::kCPU, description.precision);
    for (size_t i = 0; i < kComparedBatches.size(); ++i) {
      Run(i);  // what the first pass alone allocates is not the pass's
      const kernels::MemoryLedger ledger;
      Run(i);
      result_.peak_bytes[i] = ledger.peak_bytes();
    }
  }

  Classifier classifier() const { return ClassifierOf(*model_); }

  void Time(size_t batch) {
    const auto start = std::chrono::steady_clock::now();
    Run(batch);
    milliseconds_[batch].push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }

  ComparedModel Result(const Score& score) {
    result_.score = score;
    for (size_t i = 0; i < kComparedBatches.size(); ++i) {
      std::vector<double>& runs = milliseconds_[i];
      const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
      std::nth_element(runs.begin(), middle, runs.end());
      result_.milliseconds[i] = *middle;
    }
    return result_;
  }

 private:
  void Run(size_t batch) const {
    ForwardContext context;
    model_->Run(pixels_[batch], context);
  }

  std::unique_ptr<Model> model_;
  std::array<at::Tensor, kComparedBatches.size()> pixels_;
  std::array<std::vector<double>, kComparedBatches.size()> milliseconds_;
  ComparedModel result_;
};

}  // namespace

std::vector<ComparedModel> Compare(const std::vector<std::filesystem::path>& folders,
                                   const ComparisonOptions& options) {
  TORCH_CHECK_VALUE(options.rounds > 0 && options.images > 0,
                    "a comparison has at least one round and one image");
  std::vector<Contestant> contestants;
  contestants.reserve(folders.size());
  for (const std::filesystem::path& folder : folders) contestants.emplace_back(folder);
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t batch = 0; batch < kComparedBatches.size(); ++batch) {
      for (Contestant& contestant : contestants) contestant.Time(batch);
    }
    std::ranges::reverse(contestants);
  }
  if (options.rounds % 2 == 1) std::ranges::reverse(contestants);
  std::vector<Classifier> classifiers;
  for (const Contestant& contestant : contestants) classifiers.push_back(contestant.classifier());
  const std::vector<Score> scores =
      Evaluate(classifiers, options.seed, Stream::kTest, options.images);
  std::vector<ComparedModel> results;
  for (size_t i = 0; i < contestants.size(); ++i) {
    results.push_back(contestants[i].Result(scores[i]));
  }
  return results;
}

void WriteCsv(const std::vector<ComparedModel>& models, const std::filesystem::path& file) {
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::trunc);
  out << "model,backbone,attention,parameters,multiply_adds,images,correct,loss";
  for (const int64_t batch : kComparedBatches) {
    out << ",milliseconds_" << batch << ",peak_bytes_" << batch;
  }
  out << '\n';
  for (const ComparedModel& model : models) {
    out << model.folder.filename().string() << ',' << model.backbone << ",\"" << model.attention
        << "\"," << model.parameters << ',' << model.multiply_adds << ',' << model.score.images
        << ',' << model.score.correct << ',' << model.score.loss;
    for (size_t i = 0; i < kComparedBatches.size(); ++i) {
      out << ',' << model.milliseconds[i] << ',' << model.peak_bytes[i];
    }
    out << '\n';
  }
  out.close();
  if (!out) throw std::runtime_error("could not write " + file.string());
}

}  // namespace fovea::models::training
