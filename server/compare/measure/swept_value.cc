#include "server/compare/measure/swept_value.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

constexpr char kPlaceholder[] = "{}";

absl::Status BadValue(const std::string& text, const std::string& what) {
  return InvalidArgument("sweep.bad_value", absl::StrCat(InQuotes(text), " is no ", what));
}

// Empty: the axis is none of an attention's options.
std::string OptionOf(SweepAxis axis) {
  switch (axis) {
    case SweepAxis::kK:
      return "k";
    case SweepAxis::kTemperature:
      return "temperature";
    case SweepAxis::kHeads:
      return "heads";
    default:
      return "";
  }
}

// Digits alone, as options of attentions have them.
absl::StatusOr<int> ReadNumber(const std::string& text, int64_t most, const std::string& what) {
  int number = 0;
  const bool digits = text.find_first_not_of("0123456789") == text.npos;
  if (digits && absl::SimpleAtoi(text, &number) && number >= 1 && number <= most) return number;
  return BadValue(text, absl::StrCat(what, " from 1 to ", most));
}

bool IsShare(const std::string& k) { return absl::StrContains(k, '.'); }

absl::StatusOr<double> ReadFraction(const std::string& text, double most, const std::string& what) {
  double number = 0;
  const bool digits = text.find_first_not_of("0123456789.") == text.npos;
  if (digits && absl::SimpleAtod(text, &number) && number > 0 && number <= most) return number;
  return BadValue(text, what);
}

absl::Status ReadOnAxis(SweepAxis axis, int device_threads, SweptValue& value) {
  constexpr int64_t kMostKeys = 1'000'000'000, kMostHeads = 1'000'000;
  switch (axis) {
    case SweepAxis::kResolution: {
      FOVEA_ASSIGN_OR_RETURN(const int side,
                             ReadNumber(value.text, limits::kMaxSweptSide, "side in pixels"));
      value.size = models::ImageSize{side, side};
      value.place = double{1} * side * side;
      break;
    }
    case SweepAxis::kBatch: {
      FOVEA_ASSIGN_OR_RETURN(value.batch_size,
                             ReadNumber(value.text, limits::kMaxComparedBatch, "batch"));
      value.place = value.batch_size;
      break;
    }
    case SweepAxis::kThreads: {
      FOVEA_ASSIGN_OR_RETURN(value.threads,
                             ReadNumber(value.text, device_threads, "number of threads"));
      value.place = value.threads;
      break;
    }
    case SweepAxis::kK: {
      if (IsShare(value.text)) {
        FOVEA_ASSIGN_OR_RETURN(value.place,
                               ReadFraction(value.text, 1, "share of the keys above 0, at most 1"));
      } else {
        FOVEA_ASSIGN_OR_RETURN(value.place, ReadNumber(value.text, kMostKeys, "count of keys"));
      }
      break;
    }
    case SweepAxis::kTemperature: {
      FOVEA_ASSIGN_OR_RETURN(value.place,
                             ReadFraction(value.text, 1e9, "temperature above 0, at most 1e9"));
      break;
    }
    case SweepAxis::kHeads: {
      FOVEA_ASSIGN_OR_RETURN(value.place, ReadNumber(value.text, kMostHeads, "number of heads"));
      break;
    }
    case SweepAxis::kPrecision:
      for (const models::Precision precision : models::kPrecisions) {
        if (value.text == models::NameOf(precision)) value.precision = precision;
      }
      if (!value.precision) return BadValue(value.text, "precision: FP32, BF16, FP16 or INT8");
      break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SweptValue>> ReadSweptValues(const SweepRequest& request,
                                                        int device_threads) {
  std::vector<SweptValue> values;
  for (const std::string& text : request.values) {
    SweptValue& value = values.emplace_back(
        SweptValue{.text = text,
                   .batch_size = request.batch_size,
                   .threads = request.threads == 0 ? device_threads : request.threads});
    FOVEA_RETURN_IF_ERROR(ReadOnAxis(request.axis, device_threads, value));
    if (request.axis == SweepAxis::kK && IsShare(text) != IsShare(values.front().text)) {
      return InvalidArgument("sweep.bad_value",
                             "some values of k are counts of keys and some, with a decimal point, "
                             "shares: they do not lie on one axis");
    }
    const auto is_the_same = [&](const SweptValue& other) {
      return other.place == value.place && other.precision == value.precision;
    };
    if (std::any_of(values.begin(), values.end() - 1, is_the_same)) {
      return InvalidArgument(
          "sweep.bad_value",
          absl::StrCat(InQuotes(text), " is there twice: each value is a point"));
    }
  }
  return values;
}

absl::StatusOr<std::string> AttentionAt(SweepAxis axis, const std::string& attention,
                                        const std::string& own, const std::string& value) {
  const std::string option = OptionOf(axis);
  if (option.empty()) return attention;
  if (absl::StrContains(attention, kPlaceholder)) {
    return absl::StrReplaceAll(attention, {{kPlaceholder, value}});
  }
  std::string text = attention;
  if (text.empty()) text = axis == SweepAxis::kK ? "knn" : own;
  const auto bad = [&](const char* why) {
    return InvalidArgument("sweep.bad_attention",
                           absl::StrCat("there is no place for ", option, " in the attention ",
                                        InQuotes(text), ": ", why));
  };
  if (text.empty()) return bad("the model has none");
  if (absl::StrContains(text, '|')) return bad("of several stages, write {} where it is to stand");
  if (absl::StrContains(text, absl::StrCat(":", option, "=")) ||
      absl::StrContains(text, absl::StrCat(",", option, "="))) {
    return bad("it has one; write {} where it is to stand");
  }
  return absl::StrCat(text, absl::StrContains(text, ':') ? "," : ":", option, "=", value);
}

bool HasExponent(SweepAxis axis) {
  return axis != SweepAxis::kTemperature && axis != SweepAxis::kPrecision;
}

}  // namespace fovea
