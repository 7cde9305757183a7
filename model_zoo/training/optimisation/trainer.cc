#include "model_zoo/training/optimisation/trainer.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>

#include "model_zoo/training/optimisation/checkpoint.h"
#include "model_zoo/training/optimisation/schedule.h"
#include "model_zoo/training/tasks/autocast.h"

namespace fovea::models::training {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What a checkpoint calls the tensors of which parts.
constexpr char kModel[] = "model.", kBest[] = "best.", kExtra[] = "extra.";

// Parameters and buffers: what a model's file holds.
std::vector<NamedTensor> WeightsOf(const Backbone& backbone, const std::string& prefix) {
  std::vector<NamedTensor> weights;
  for (const auto& parameter : backbone.named_parameters()) {
    weights.emplace_back(prefix + parameter.key(), parameter.value());
  }
  for (const auto& buffer : backbone.named_buffers()) {
    weights.emplace_back(prefix + buffer.key(), buffer.value());
  }
  return weights;
}

// The parameters that the task's loss does not depend on: behind a head a backbone keeps the norm
// of its classifier. A look at one batch tells, which leaves running statistics alone.
std::set<std::string> Unused(Backbone& backbone, TrainingTask& task) {
  backbone.eval();
  task.Loss(0).total.backward();
  backbone.train();
  std::set<std::string> unused;
  for (auto& parameter : backbone.named_parameters()) {
    if (!parameter.value().grad().defined()) unused.insert(parameter.key());
    parameter.value().mutable_grad().reset();
  }
  return unused;
}

class Training {
 public:
  Training(Backbone& backbone, TrainingTask& task, const TrainingOptions& options,
           const CheckpointOptions& checkpoints)
      : backbone_(backbone),
        task_(task),
        options_(options),
        total_steps_(options.epochs * options.steps_per_epoch),
        schedule_{
            .peak = options.peak_learning_rate,
            .warmup_steps = std::llround(options.warmup_share * static_cast<double>(total_steps_)),
            .total_steps = total_steps_},
        checkpoint_minutes_(checkpoints.minutes),
        optimizer_(options.optimizer),
        folder_(checkpoints.folder) {
    const std::set<std::string> unused = Unused(backbone, task);
    for (const auto& parameter : backbone.named_parameters()) {
      if (unused.contains(parameter.key())) continue;
      // What is added to the tokens ("cls_token", "pos_embed") is no matrix, whatever its shape.
      const std::string& name = parameter.key();
      const bool embedding = name.ends_with("_token") || name.ends_with("pos_embed");
      optimizer_.Add(parameter.value(), /*decays=*/parameter.value().dim() >= 2 && !embedding);
    }
    for (const TrainingTask::Extra& extra : task.extras()) {
      optimizer_.Add(extra.parameter, extra.decays);
    }
    best_ = WeightsOf(backbone, kBest);
    for (NamedTensor& tensor : best_) tensor.second = tensor.second.detach().clone();
    if (folder_ == nullptr) return;
    if (checkpoints.resume) {
      if (auto stored = folder_->Read(Tensors())) state_ = std::move(*stored);
    } else {
      folder_->Remove();
    }
  }

  void Run(const std::function<void(const StepReport&)>& on_step,
           const std::function<void(const EpochReport&)>& on_epoch) {
    const PlainAttention plain_attention;
    start_ = last_checkpoint_ = Clock::now();
    seconds_before_ = state_.seconds;
    for (const EpochReport& report : state_.reports) on_epoch(report);
    while (!Done()) {
      on_step(Step());
      if (state_.step % options_.steps_per_epoch == 0) {
        EndEpoch();
        Checkpoint();
        on_epoch(state_.reports.back());
      } else if (SecondsSince(last_checkpoint_) > 60 * checkpoint_minutes_) {
        Checkpoint();
      }
    }
    if (options_.keep_best && state_.best_epoch > 0) {
      const at::NoGradGuard no_grad;
      const std::vector<NamedTensor> weights = WeightsOf(backbone_, kModel);
      for (size_t i = 0; i < weights.size(); ++i) {
        weights[i].second.detach().copy_(best_[i].second);
      }
    }
  }

 private:
  bool Done() const {
    const auto epoch = static_cast<int>(state_.reports.size());
    const bool lost_patience = options_.patience > 0 && state_.best_epoch > 0 &&
                               epoch - state_.best_epoch >= options_.patience;
    // Not before the epoch's end: patience is counted there.
    const bool between = state_.step % options_.steps_per_epoch == 0;
    return state_.step >= total_steps_ || (lost_patience && between);
  }

  StepReport Step() {
    const BatchLoss batch = task_.Loss(state_.step);
    const double loss = batch.measures.front().value;
    CheckFinite("the loss is ", loss);
    optimizer_.ZeroGradients();
    batch.total.backward();
    const double norm = optimizer_.ClipGradients(options_.clip_norm);
    CheckFinite("the gradients' norm is ", norm);
    optimizer_.Step(schedule_.At(state_.step));
    if (state_.sums.empty()) {
      state_.sums = batch.measures;
    } else {
      for (size_t i = 0; i < state_.sums.size(); ++i) {
        state_.sums[i].value += batch.measures[i].value;
      }
    }
    return {++state_.step, total_steps_, loss};
  }

  void CheckFinite(const char* what, double value) const {
    TORCH_CHECK(std::isfinite(value), what, value, " at step ", state_.step,
                state_.step > 0 ? ": a lower learning rate may help"
                                : ", before any weight has changed: the weights that the training "
                                  "starts from are at fault, or the data");
  }

  void EndEpoch() {
    EpochReport report{.epoch = static_cast<int>(state_.reports.size()) + 1,
                       .learning_rate = schedule_.At(state_.step - 1),
                       .training = std::exchange(state_.sums, {})};
    for (Measure& mean : report.training) {
      mean.value /= static_cast<double>(options_.steps_per_epoch);
    }
    if (options_.validates) {
      // Running statistics are those of the pictures that are learned from.
      backbone_.eval();
      Validation validation;
      {
        const at::NoGradGuard no_grad;
        validation = task_.Validate();
      }
      backbone_.train();
      report.validation = std::move(validation.measures);
      report.score = validation.score;
      TORCH_CHECK(std::isfinite(report.score), "the validation says ", report.score);
      if (state_.best_epoch == 0 || report.score > state_.best_score) KeepAsBest(report);
    }
    report.seconds = seconds_before_ + SecondsSince(start_);
    state_.reports.push_back(std::move(report));
  }

  void KeepAsBest(const EpochReport& report) {
    state_.best_epoch = report.epoch;
    state_.best_score = report.score;
    const at::NoGradGuard no_grad;
    const std::vector<NamedTensor> weights = WeightsOf(backbone_, kModel);
    for (size_t i = 0; i < weights.size(); ++i) best_[i].second.copy_(weights[i].second);
  }

  // All that the next step depends on.
  std::vector<NamedTensor> Tensors() const {
    std::vector<NamedTensor> tensors = WeightsOf(backbone_, kModel);
    int index = 0;
    for (const TrainingTask::Extra& extra : task_.extras()) {
      tensors.emplace_back(kExtra + std::to_string(index++), extra.parameter);
    }
    for (NamedTensor& tensor : optimizer_.State()) tensors.push_back(std::move(tensor));
    tensors.insert(tensors.end(), best_.begin(), best_.end());
    return tensors;
  }

  void Checkpoint() {
    if (folder_ == nullptr) return;
    state_.seconds = seconds_before_ + SecondsSince(start_);
    folder_->Write(state_, Tensors());
    last_checkpoint_ = Clock::now();
  }

  Backbone& backbone_;
  TrainingTask& task_;
  const TrainingOptions options_;
  const int64_t total_steps_;
  const Schedule schedule_;
  const double checkpoint_minutes_;
  AdamW optimizer_;
  std::vector<NamedTensor> best_;  // weights of the best epoch
  const CheckpointFolder* const folder_;
  TrainingState state_;
  Clock::time_point start_, last_checkpoint_;
  double seconds_before_ = 0;  // of the processes before this one
};

}  // namespace

double ValueOf(const std::vector<Measure>& measures, std::string_view name) {
  const auto one = std::ranges::find(measures, name, &Measure::name);
  TORCH_CHECK(one != measures.end(), "there is no measure ", name);
  return one->value;
}

void Train(Backbone& backbone, TrainingTask& task, const TrainingOptions& options,
           const CheckpointOptions& checkpoints,
           const std::function<void(const StepReport&)>& on_step,
           const std::function<void(const EpochReport&)>& on_epoch) {
  TORCH_CHECK_VALUE(options.epochs > 0 && options.steps_per_epoch > 0,
                    "a training has at least one epoch and one step an epoch");
  backbone.train();
  Training(backbone, task, options, checkpoints).Run(on_step, on_epoch);
}

}  // namespace fovea::models::training
