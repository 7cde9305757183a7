#include "client/cpp/cli/text.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"

namespace fovea::client {
namespace {

// Empty where an older server does not tell.
std::string ThreadsText(int threads) {
  return threads == 0 ? "" : absl::StrCat(" on ", Count(static_cast<size_t>(threads), "thread"));
}

// Empty where no experiment has the model's traffic.
std::string ArmText(const Receipt& receipt) {
  if (receipt.experiment.empty()) return "";
  return absl::StrCat("; experiment ", Printable(receipt.experiment), ": ",
                      Printable(receipt.experiment_arm));
}

}  // namespace

std::string Fixed(double value, int decimals) { return absl::StrFormat("%.*f", decimals, value); }

std::string Milliseconds(absl::Duration duration) {
  return Fixed(absl::ToDoubleMilliseconds(duration), 2);
}

std::string Mebibytes(double bytes) { return Fixed(bytes / (1 << 20), 2); }

std::string MedianText(const std::optional<Quartiles>& quartiles, int decimals) {
  return quartiles ? Fixed(quartiles->median, decimals) : "-";
}

std::string Gmacs(int64_t multiply_adds, int decimals) {
  return multiply_adds == 0 ? "-" : Fixed(static_cast<double>(multiply_adds) * 1e-9, decimals);
}

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

std::string RangeText(double lower, double upper, int decimals) {
  return absl::StrCat(Fixed(lower, decimals), "-", Fixed(upper, decimals));
}

std::string Ago(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return "never";
  const double seconds = std::max(0.0, absl::ToDoubleSeconds(duration));
  if (seconds < 120) return absl::StrFormat("%.0f s ago", seconds);
  if (seconds < 2 * 3600) return absl::StrFormat("%.0f min ago", seconds / 60);
  if (seconds < 2 * 86400) return absl::StrFormat("%.0f h ago", seconds / 3600);
  return absl::StrFormat("%.0f days ago", seconds / 86400);
}

std::string Count(size_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string LabelOf(const ClassScore& score) {
  return score.label.empty() ? absl::StrCat("class ", score.index) : score.label;
}

std::string LabelOf(const Detection& detection) {
  return detection.label.empty() ? absl::StrCat("class ", detection.class_index) : detection.label;
}

std::string LabelOf(const ClassArea& area) {
  return area.label.empty() ? absl::StrCat("class ", area.class_index) : area.label;
}

std::string DeviceText(const DeviceTimes& times) {
  return absl::StrCat(" on a GPU (h2d ", Milliseconds(times.h2d), ", kernels ",
                      Milliseconds(times.kernels), ", d2h ", Milliseconds(times.d2h), ")");
}

std::string ReceiptText(const Receipt& receipt) {
  std::string text;
  for (size_t i = 0; i < kStageNames.size(); ++i) {
    absl::StrAppend(&text, kStageNames[i].data(), " ", Milliseconds(receipt.stages[i]), ", ");
  }
  return absl::StrCat(
      text, "total ", Milliseconds(receipt.total()), " ms; batch of ", receipt.batch_size,
      receipt.device_times ? DeviceText(*receipt.device_times) : ThreadsText(receipt.batch_threads),
      ", peak ", Mebibytes(static_cast<double>(receipt.batch_peak_bytes)), " MiB",
      ArmText(receipt));
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (size_t i = 1; i < shape.size(); ++i) {
    absl::StrAppend(&text, i > 1 ? "x" : "", shape[i] < 0 ? "?" : absl::StrCat(shape[i]));
  }
  return text;
}

std::string ModelText(const ModelId& model) {
  return model.version.empty() ? model.name : absl::StrCat(model.name, "/", model.version);
}

absl::StatusOr<ModelId> ParseModel(const std::string& text) {
  const size_t slash = text.find('/');
  ModelId model{text.substr(0, slash), slash == std::string::npos ? "" : text.substr(slash + 1)};
  if (model.name.empty() || (slash != std::string::npos && model.version.empty()) ||
      model.version.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no model: write NAME or NAME/VERSION"));
  }
  return model;
}

absl::StatusOr<absl::Duration> ParseTime(const std::string& text) {
  double seconds = 0;
  absl::Duration time;
  if (absl::SimpleAtod(text, &seconds)) {
    time = std::isfinite(seconds) ? absl::Seconds(seconds) : absl::ZeroDuration();
  } else if (!absl::ParseDuration(text, &time)) {
    time = absl::ZeroDuration();
  }
  if (time <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no time: write seconds, or 500ms, 1.5s, 2m"));
  }
  return time;
}

std::string Printable(const std::string& text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint next = DecodeUtf8(rest);
    const bool shown =
        next.value != CodePoint::kInvalid && !IsControl(next.value) && !IsMisleading(next.value);
    clean += shown ? rest.substr(0, static_cast<size_t>(next.length)) : "?";
    rest.remove_prefix(static_cast<size_t>(next.length));
  }
  return clean;
}

std::string HtmlText(const std::string& text) {
  return absl::StrReplaceAll(
      Printable(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

size_t Width(const std::string& text) {
  size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

std::string Shortened(const std::string& text, size_t columns) {
  if (Width(text) <= columns) return text;
  size_t at = 0;
  for (size_t kept = 0; kept + 1 < columns; ++kept)
    at += static_cast<size_t>(DecodeUtf8(std::string_view(text).substr(at)).length);
  return text.substr(0, at) + "…";
}

}  // namespace fovea::client
