#include "model_zoo/measures/pass_profile.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "kernels/memory/pass_arena.h"

namespace fovea::models {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::string_view kOther = "other operators", kNone = "outside operators";
// A chain of linear layers is one operator, with the norms, activations and residuals around them.
constexpr std::string_view kLinear = "linear layers and what is fused with them";

// What operators do whose names hold such a text: the first that fits. What an operator calls
// belongs to it.
constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
    {"attention", "attention"},
    {"key_only", "attention"},
    {"linear", kLinear},
    {"addmm", kLinear},
    {"bmm", kLinear},
    {"matmul", kLinear},
    {"norm", "norms"},
    {"conv", "convolutions"},
    {"winograd", "convolutions"},
    {"rp_cpe", "convolutions"},
    {"gelu", "activations"},
    {"relu", "activations"},
    {"sigmoid", "activations"},
    {"softmax", "activations"},
    {"copy", "copies"},
    {"clone", "copies"},
    {"contiguous", "copies"},
    {"aten::cat", "copies"},
    {"aten::to", "copies"},
    {"pad", "copies"},
    {"roll", "copies"},
    {"aten::add", "element-wise"},
    {"aten::mul", "element-wise"},
    {"aten::mean", "reductions"},
};

std::string_view KindOf(std::string_view name) {
  for (const auto& [text, kind] : kKinds) {
    if (name.find(text) != name.npos) return kind;
  }
  return kOther;
}

struct Running {
  std::string_view kind;
  Clock::time_point began;
  Clock::duration within{};  // of what it called
};

struct Watch {
  std::vector<Running> stack;
  std::map<std::string_view, Clock::duration> times;
};
thread_local Watch* watch = nullptr;

std::unique_ptr<at::ObserverContext> Enter(const at::RecordFunction& function) {
  if (watch == nullptr) return nullptr;
  const bool inside = !watch->stack.empty() && watch->stack.back().kind != kOther;
  const std::string_view kind = inside ? watch->stack.back().kind : KindOf(function.name());
  watch->stack.push_back({kind, Clock::now()});
  return nullptr;
}

void Leave(const at::RecordFunction& /*function*/, at::ObserverContext* /*context*/) {
  if (watch == nullptr || watch->stack.empty()) return;
  const Running ended = watch->stack.back();
  watch->stack.pop_back();
  const Clock::duration taken = Clock::now() - ended.began;
  watch->times[ended.kind] += taken - ended.within;
  if (!watch->stack.empty()) watch->stack.back().within += taken;
}

Milliseconds MedianOf(std::vector<Milliseconds> times) {
  std::ranges::nth_element(times, times.begin() + static_cast<int64_t>(times.size() / 2));
  return times[times.size() / 2];
}

// As a lane of the server runs it.
class TimedPasses {
 public:
  TimedPasses(const Model& model, const at::Tensor& pixels) : model_(model), pixels_(pixels) {}

  Milliseconds TimeOfOne() {
    ForwardContext context;
    const Clock::time_point began = Clock::now();
    {
      kernels::PassArena::Scope pass(arena_, pixels_);
      const std::vector<at::Tensor> outputs = model_.Run(pixels_, context);
      pass.Complete();
    }
    return Clock::now() - began;
  }

  Milliseconds MedianOf(int passes) {
    std::vector<Milliseconds> times;
    for (int i = 0; i < passes; ++i) times.push_back(TimeOfOne());
    return models::MedianOf(std::move(times));
  }

 private:
  const Model& model_;
  const at::Tensor pixels_;
  kernels::PassArena arena_;
};

}  // namespace

PassProfile ProfilePass(const Model& model, const at::Tensor& pixels, int passes) {
  PassProfile profile;
  profile.threads = at::get_num_threads();
  TimedPasses timed(model, pixels);
  for (int i = 0; i < 3; ++i) timed.TimeOfOne();

  std::map<std::string_view, std::vector<Milliseconds>> times;
  std::vector<Milliseconds> whole;
  const at::CallbackHandle callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback(Enter, Leave).scopes({at::RecordScope::FUNCTION}));
  for (int i = 0; i < passes; ++i) {
    Watch watched;
    watch = &watched;
    whole.push_back(timed.TimeOfOne());
    watch = nullptr;
    Milliseconds rest = whole.back();
    for (const auto& [kind, taken] : watched.times) {
      times[kind].push_back(taken);
      rest -= taken;
    }
    times[kNone].push_back(rest);
  }
  at::removeCallback(callback);
  profile.pass = MedianOf(whole);
  for (auto& [kind, taken] : times) {
    // Of passes that differ, those without this kind.
    taken.resize(static_cast<size_t>(passes), Milliseconds(0));
    profile.parts.push_back({kind, MedianOf(taken)});
  }
  std::ranges::sort(profile.parts, std::greater(), &PassProfile::Part::time);

  profile.unwatched = timed.MedianOf(passes);
  at::set_num_threads(1);
  for (int i = 0; i < 3; ++i) timed.TimeOfOne();
  profile.by_one_thread = timed.MedianOf(passes);
  at::set_num_threads(profile.threads);
  return profile;
}

}  // namespace fovea::models
