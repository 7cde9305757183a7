#include "model_zoo/measures/attention_time.h"

#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <string_view>

namespace fovea::models {
namespace {

using Clock = std::chrono::steady_clock;

struct Watch {
  int depth = 0;  // of such operators that are running
  Clock::time_point began;
  std::optional<std::chrono::nanoseconds> total;
};
thread_local Watch* watch = nullptr;

bool IsAttention(std::string_view name) {
  if (name == "aten::scaled_dot_product_attention") return true;
  return name.starts_with("fovea::") && name.find("attention") != name.npos;
}

std::unique_ptr<at::ObserverContext> Enter(const at::RecordFunction& function) {
  if (watch != nullptr && IsAttention(function.name()) && watch->depth++ == 0) {
    watch->began = Clock::now();
  }
  return nullptr;
}

void Leave(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (watch != nullptr && IsAttention(function.name()) && --watch->depth == 0) {
    watch->total =
        watch->total.value_or(std::chrono::nanoseconds(0)) + (Clock::now() - watch->began);
  }
}

}  // namespace

struct AttentionTime::State {
  Watch watch;
  at::CallbackHandle callback;
};

AttentionTime::AttentionTime() : state_(std::make_unique<State>()) {
  TORCH_CHECK(watch == nullptr, "a thread watches its attention once at a time");
  watch = &state_->watch;
  state_->callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback(Enter, Leave).scopes({at::RecordScope::FUNCTION}));
}

AttentionTime::~AttentionTime() {
  at::removeCallback(state_->callback);
  watch = nullptr;
}

std::optional<std::chrono::nanoseconds> AttentionTime::total() const { return state_->watch.total; }

}  // namespace fovea::models
