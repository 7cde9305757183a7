#include "server/observe/access_log.h"

#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "server/observe/logging.h"

namespace fovea {
namespace {

constexpr double kMs = 1e-6;  // of a nanosecond

// kStageNames, with the unit.
constexpr std::string_view kStageFields[kStageCount] = {
    "receive_ms", "decode_ms",      "preprocess_ms", "queue_ms",
    "compute_ms", "postprocess_ms", "encode_ms"};

// Callers may send more than can be a name; nobody needs more of it to recognise it.
std::string_view Cut(std::string_view text) { return text.substr(0, limits::kMaxModelNameBytes); }

}  // namespace

bool AccessLog::Admit(absl::StatusCode code) {
  if (options_.mode == AccessLogMode::kOff) return false;
  int64_t left_out = 0;
  bool admitted;
  {
    MutexLock lock(mutex_);
    if (code == absl::StatusCode::kOk) {
      return options_.mode == AccessLogMode::kAll && answered_++ % options_.sample == 0;
    }
    const Nanos now = clock_.Now();
    if (now - second_ >= kSecond) {
      second_ = now;
      failures_ = 0;
      left_out = std::exchange(left_out_, 0);
    }
    admitted = failures_ < options_.max_failures_per_second;
    if (admitted) {
      ++failures_;
    } else {
      ++left_out_;
    }
  }
  TellLeftOut(left_out);
  return admitted;
}

void AccessLog::Flush() {
  int64_t left_out;
  {
    MutexLock lock(mutex_);
    left_out = std::exchange(left_out_, 0);
  }
  TellLeftOut(left_out);
}

void AccessLog::TellLeftOut(int64_t requests) const {
  if (requests == 0) return;
  LogWithFields(
      LogLevel::kWarning, "failed requests that are not in this log",
      {{"requests", requests}, {"most_in_a_second", int64_t{options_.max_failures_per_second}}});
}

void AccessLog::Write(const AccessRecord& record) {
  if (!Admit(record.code)) return;
  const std::string code = absl::StatusCodeToString(record.code);
  std::vector<LogField> fields = {
      {"protocol", record.protocol},
      {"method", record.method},
      {"id", Cut(record.id)},
      {"model", Cut(record.model)},
      {"version", Cut(record.version)},
      {"code", code},
      {"reason", record.reason},
      {"total_ms", static_cast<double>(record.stages.total()) * kMs},
  };
  if (!record.principal.empty()) fields.push_back({"principal", record.principal});
  if (!record.trace_id.empty()) fields.push_back({"trace_id", record.trace_id});
  for (int stage = 0; stage < kStageCount; ++stage) {
    fields.push_back(
        {kStageFields[stage], static_cast<double>(record.stages[static_cast<Stage>(stage)]) * kMs});
  }
  fields.push_back({"received_bytes", record.received_bytes});
  fields.push_back({"sent_bytes", record.sent_bytes});
  LogWithFields(LogLevel::kInfo, "request", fields);
}

}  // namespace fovea
