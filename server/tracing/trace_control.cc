#include "server/tracing/trace_control.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

constexpr char kMode[] = "opentelemetry";

absl::Status BadValue(std::string_view name, std::string_view wanted) {
  return InvalidArgument("trace.bad_setting",
                         absl::StrCat(std::string(name), " is ", std::string(wanted)));
}

absl::Status NotDone(std::string_view what) { return Unimplemented("trace.setting", what); }

// The one value; nothing where there are several.
template <typename Number>
std::optional<Number> ReadNumber(const std::vector<std::string>& values) {
  Number number;
  if (values.size() != 1 || !absl::SimpleAtoi(values[0], &number)) return std::nullopt;
  return number;
}

// Whether it is what this server always has.
bool Is(const std::vector<std::string>& values, std::string_view constant) {
  return values.size() == 1 && values[0] == constant;
}

// As Triton writes a share: one request in so many.
uint32_t RateOf(double sampling) {
  constexpr double kMost = std::numeric_limits<uint32_t>::max();
  return sampling <= 0 ? 0 : static_cast<uint32_t>(std::min(std::round(1 / sampling), kMost));
}

// By the trace's lower bits, which are random: each server on a request's way decides alike.
bool InShare(const TraceId& trace, double sampling) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  // The largest number of 63 bits is 2^63 as a double.
  return sampling >= 1 || static_cast<double>(trace.low >> 1) < sampling * kTwoTo63;
}

}  // namespace

absl::Status TraceControl::ChangeOne(std::string_view name, const std::vector<std::string>& values,
                                     Scope* scope) const {
  if (name == "trace_level") {
    scope->on.reset();
    if (values.empty()) return absl::OkStatus();
    if (Is(values, "OFF")) {
      scope->on = false;
      return absl::OkStatus();
    }
    for (const std::string& value : values) {
      if (value == "TENSORS") return NotDone("tensors are not traced by this server");
      if (value != "TIMESTAMPS") return BadValue(name, "OFF or TIMESTAMPS");
    }
    if (!can_trace_) {
      return NotDone("the server was started without a collector for traces (--otlp-endpoint)");
    }
    scope->on = true;
    return absl::OkStatus();
  }
  if (name == "trace_rate") {
    scope->rate = ReadNumber<uint32_t>(values);
    scope->seen = 0;
    return values.empty() || scope->rate ? absl::OkStatus()
                                         : BadValue(name, "a whole number of at least 0");
  }
  if (name == "trace_count") {
    scope->count = ReadNumber<int64_t>(values);
    return values.empty() || (scope->count && *scope->count >= -1)
               ? absl::OkStatus()
               : BadValue(name, "a whole number of at least 0, or -1 for any number");
  }
  if (name == "trace_file") {
    if (values.empty() || Is(values, "")) return absl::OkStatus();
    return NotDone("this server writes no files: traces go to the collector of --otlp-endpoint");
  }
  if (name == "log_frequency") {
    if (values.empty() || Is(values, "0")) return absl::OkStatus();
    return NotDone("this server writes no files of traces: log_frequency is 0");
  }
  if (name == "trace_mode") {
    if (values.empty() || Is(values, kMode)) return absl::OkStatus();
    return NotDone("trace_mode is opentelemetry");
  }
  return InvalidArgument("trace.bad_setting", absl::StrCat("unknown setting ", InQuotes(name)));
}

absl::Status TraceControl::Change(const std::string& model, const Values& changes) {
  MutexLock lock(mutex_);
  const auto known = models_.find(model);
  Scope changed;
  if (model.empty()) {
    changed = server_;
  } else if (known != models_.end()) {
    changed = known->second;
  }
  for (const auto& [name, values] : changes) {
    FOVEA_RETURN_IF_ERROR(ChangeOne(name, values, &changed));
  }
  if (model.empty()) {
    server_ = changed;
  } else if (changed.empty()) {
    models_.erase(model);
  } else {
    if (known == models_.end() && models_.size() >= limits::kMaxTracedModels) {
      return ResourceExhausted("trace.too_many_models",
                               absl::StrCat("more than ", limits::kMaxTracedModels,
                                            " models with trace settings of their own"));
    }
    models_[model] = changed;
  }
  return absl::OkStatus();
}

template <typename Setting>
TraceControl::Scope* TraceControl::Owner(const std::string& model, Setting Scope::*setting) {
  const auto own = models_.find(model);
  if (own != models_.end() && own->second.*setting) return &own->second;
  return server_.*setting ? &server_ : nullptr;
}

template <typename Setting>
Setting TraceControl::Get(const std::string& model, std::optional<Setting> Scope::*setting,
                          Setting otherwise) const {
  const auto own = models_.find(model);
  if (own != models_.end() && own->second.*setting) return *(own->second.*setting);
  return (server_.*setting).value_or(otherwise);
}

TraceControl::Values TraceControl::Current(const std::string& model) const {
  MutexLock lock(mutex_);
  const bool on = Get(model, &Scope::on, can_trace_);
  return {{"trace_file", {""}},
          {"trace_level", {on ? "TIMESTAMPS" : "OFF"}},
          {"trace_rate", {absl::StrCat(Get(model, &Scope::rate, RateOf(sampling_)))}},
          {"trace_count", {absl::StrCat(Get(model, &Scope::count, int64_t{-1}))}},
          {"log_frequency", {"0"}},
          {"trace_mode", {kMode}}};
}

bool TraceControl::On(const std::string& model) const {
  MutexLock lock(mutex_);
  return Get(model, &Scope::on, can_trace_);
}

bool TraceControl::Take(const std::string& model, const TraceId& trace) {
  MutexLock lock(mutex_);
  Scope* const rate = Owner(model, &Scope::rate);
  if (rate == nullptr) {
    if (!InShare(trace, sampling_)) return false;
  } else if (*rate->rate == 0 || rate->seen++ % *rate->rate != 0) {
    return false;
  }
  Scope* const count = Owner(model, &Scope::count);
  if (count == nullptr || *count->count < 0) return true;
  if (*count->count == 0) return false;
  --*count->count;
  return true;
}

}  // namespace fovea
