#include "server/pipeline/run_log_context.h"

#include "absl/strings/str_cat.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

constexpr size_t kMostIds = 8;

}  // namespace

RunLogContext::RunLogContext(const ModelView& model,
                             std::span<const std::unique_ptr<InferenceTask>> tasks)
    : model_(model) {
  for (const auto& task : tasks) Add(task->request());
}

RunLogContext::RunLogContext(const ModelView& model, const InferenceRequest& request)
    : model_(model) {
  Add(request);
}

void RunLogContext::Add(const InferenceRequest& request) {
  ++requests_;
  if (!request.id.empty() && ids_.size() < kMostIds) ids_.push_back(request.id);
}

std::string RunLogContext::About() const {
  std::string text = absl::StrCat("the model ", model_.name, ", version ", model_.version);
  if (ids_.empty()) return absl::StrCat(text, "; requests without an id: ", requests_);
  text += "; requests";
  for (size_t i = 0; i < ids_.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? " " : ", ", InQuotes(ids_[i]));
  }
  if (ids_.size() < requests_) absl::StrAppend(&text, " and ", requests_ - ids_.size(), " more");
  return text;
}

}  // namespace fovea
