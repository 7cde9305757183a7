#include "server/pipeline/image_by_image.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/mutex.h"
#include "server/postprocess/tensors.h"

namespace fovea {
namespace {

absl::Status Append(TensorResults& to, TensorResults&& more) {
  FOVEA_CHECK(to.size() == more.size());
  for (size_t i = 0; i < to.size(); ++i) {
    FOVEA_CHECK(to[i].name == more[i].name);
    const std::span<const int64_t> one(to[i].shape), other(more[i].shape);
    if (!std::ranges::equal(one.subspan(1), other.subspan(1))) {
      return ImagesDiffer(to[i].name);
    }
    to[i].shape[0] += more[i].shape[0];
    to[i].further.push_back(std::move(more[i].data));
    std::ranges::move(more[i].further, std::back_inserter(to[i].further));
  }
  return absl::OkStatus();
}

template <typename Result>
absl::Status Append(std::vector<Result>& to, std::vector<Result>&& more) {
  std::ranges::move(more, std::back_inserter(to));
  return absl::OkStatus();
}

absl::Status Append(Results& to, Results&& more) {
  return std::visit(
      [&]<typename Kind>(Kind& kind) { return Append(kind, std::get<Kind>(std::move(more))); }, to);
}

using Requests = std::vector<std::unique_ptr<InferenceRequest>>;

// An image as the only one of a request.
RequestInput InputFor(const AcceptedInput& input, int image) {
  if (input.kind == InputKind::kImage) return ImageFiles{{input.files[image]}};
  InputTensor one = *input.tensor;
  const size_t bytes = one.data.size() / static_cast<size_t>(input.images);
  one.shape[0] = 1;
  one.data = one.data.Slice(static_cast<size_t>(image) * bytes, bytes);
  return NamedTensors{std::move(one)};
}

// A request like `whole` for each image, but for what it brings and who cancels it. They share its
// bytes.
Requests RequestsFor(const InferenceRequest& whole, const AcceptedInput& input) {
  static std::atomic<uint64_t> last_request = 0;
  const uint64_t number = ++last_request;
  Requests requests;
  for (int image = 0; image < input.images; ++image) {
    auto one = std::make_unique<InferenceRequest>();
    one->model_name = whole.model_name;
    one->model_version = whole.model_version;
    one->id = whole.id;
    one->input = InputFor(input, image);
    one->options = whole.options;
    one->priority = whole.priority;
    one->timeout_us = whole.timeout_us;
    one->deadline = whole.deadline;
    one->split_from = number;
    one->stages = whole.stages;
    one->memory = whole.memory;
    requests.push_back(std::move(one));
  }
  return requests;
}

// Thread-safe; shared by the images.
class Joined {
 public:
  Joined(CancellationPtr whole, const Requests& requests)
      : cancellation_(std::move(whole)),
        left_(static_cast<int>(requests.size())),
        responses_(requests.size()) {
    for (const auto& one : requests) cancellations_.push_back(one->cancellation);
  }

  // Once, before the first of the images runs.
  void AnswerTo(InferenceCallback done) { done_ = std::move(done); }

  void CancelAll() const {
    for (const CancellationPtr& cancellation : cancellations_) cancellation->Cancel();
  }

  void OnDone(int image, absl::StatusOr<InferenceResponse> response, const StageTimes& stages) {
    bool first_error = false, last = false;
    {
      MutexLock lock(mutex_);
      if (!response.ok() && status_.ok()) {
        first_error = true;
        status_ = MakeError(response.status().code(), ReasonOf(response.status()),
                            absl::StrCat("image ", image + 1, " of ", responses_.size(), ": ",
                                         std::string(response.status().message())));
      }
      if (response.ok()) responses_[image] = *std::move(response);
      stages_ = stages;
      last = --left_ == 0;
    }
    if (first_error) CancelAll();
    if (!last) return;
    cancellation_->OnCancel(nullptr);
    done_(OrOutOfMemory([this] { return Whole(); }), stages_);
  }

 private:
  // After the last image.
  absl::StatusOr<InferenceResponse> Whole() {
    MutexLock lock(mutex_);
    if (!status_.ok()) return status_;
    InferenceResponse whole = *std::move(responses_.front());
    for (size_t i = 1; i < responses_.size(); ++i) {
      const Receipt& one = responses_[i]->receipt;
      FOVEA_RETURN_IF_ERROR(Append(whole.results, std::move(responses_[i]->results)));
      whole.receipt.batch_size = std::max(whole.receipt.batch_size, one.batch_size);
      whole.receipt.batch_threads = std::max(whole.receipt.batch_threads, one.batch_threads);
      whole.receipt.batch_peak_bytes =
          std::max(whole.receipt.batch_peak_bytes, one.batch_peak_bytes);
      if (one.device_times) whole.receipt.device_times = one.device_times;
      whole.receipt.padding += one.padding;
    }
    whole.receipt.padding /= static_cast<double>(responses_.size());
    whole.receipt.stages = stages_;
    return whole;
  }

  const CancellationPtr cancellation_;          // of the whole
  std::vector<CancellationPtr> cancellations_;  // of each image

  Mutex mutex_;
  int left_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::optional<InferenceResponse>> responses_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the first error
  StageTimes stages_;                            // of the last that was ready
  InferenceCallback done_;
};

}  // namespace

bool GoesImageByImage(const AcceptedInput& input, const ModelView& model) {
  return model.fits_pictures && input.images > 1 && input.kind != InputKind::kPixelValues;
}

void RunImageByImage(
    std::unique_ptr<InferenceRequest> request, const AcceptedInput& input, InferenceCallback done,
    absl::FunctionRef<void(std::unique_ptr<InferenceRequest>, InferenceCallback)> run) {
  Requests requests;
  std::shared_ptr<Joined> joined;
  // All of it before the first one runs: afterwards there are answers to wait for.
  const absl::Status split = OrOutOfMemory([&]() -> absl::Status {
    FOVEA_RETURN_IF_ERROR(request->TakeMemory(input.images * HeldBytes(request->options)));
    requests = RequestsFor(*request, input);
    joined = std::make_shared<Joined>(request->cancellation, requests);
    return absl::OkStatus();
  });
  if (!split.ok()) {
    done(split, request->stages);
    return;
  }
  joined->AnswerTo(std::move(done));
  request->cancellation->OnCancel([weak = std::weak_ptr(joined)] {
    if (const auto all = weak.lock()) all->CancelAll();
  });
  for (int image = 0; image < input.images; ++image) {
    run(std::move(requests[image]),
        [joined, image](absl::StatusOr<InferenceResponse> response, const StageTimes& stages) {
          joined->OnDone(image, std::move(response), stages);
        });
  }
}

}  // namespace fovea
