#include "server/transport/http/update_lines.h"

#include <utility>

#include "server/transport/http/http_status.h"

namespace fovea {
namespace {

HttpAnswer Head(std::string line) {
  // Proxies that gather an answer before they pass it on would hold progress back.
  return {.fields = {{"Content-Type", "application/x-ndjson"}, {"X-Accel-Buffering", "no"}},
          .body = {std::move(line)}};
}

std::string ErrorLine(const absl::Status& status) {
  std::string line;
  for (const std::string& part : ErrorAnswer(status).body) line += part;
  return line + "\n";
}

}  // namespace

void UpdateLines::Tell(std::string line) {
  MutexLock lock(mutex_);
  next_ = std::move(line);
  if (!writing_) Write();
}

void UpdateLines::End(absl::StatusOr<std::string> line) {
  MutexLock lock(mutex_);
  next_.reset();
  if (!begun_) {
    exchange_->Answer(line.ok() ? Head(*std::move(line)) : ErrorAnswer(line.status()));
    return;
  }
  last_ = line.ok() ? *std::move(line) : ErrorLine(line.status());
  if (!writing_) Write();
}

void UpdateLines::Write() {
  if (last_) {
    exchange_->AnswerLast(*std::exchange(last_, std::nullopt));
    return;
  }
  writing_ = next_.has_value();
  if (!writing_) return;
  std::string line = *std::exchange(next_, std::nullopt);
  const auto written = [self = shared_from_this()] {
    MutexLock lock(self->mutex_);
    self->Write();
  };
  if (std::exchange(begun_, true)) {
    exchange_->AnswerNext(std::move(line), written);
  } else {
    exchange_->AnswerFirst(Head(std::move(line)), written);
  }
}

}  // namespace fovea
