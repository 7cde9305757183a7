#include "client/cpp/cli/dataset_figures.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cpp/cli/csv.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

using Json = nlohmann::json;

std::optional<double> NumberIn(const Json& numbers, const std::string& name) {
  const auto found = numbers.find(name);
  if (found == numbers.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::optional<DatasetFigure::Interval> IntervalIn(const Json& intervals, const std::string& name) {
  const auto found = intervals.find(name);
  if (found == intervals.end()) return std::nullopt;
  return DatasetFigure::Interval{found->at("lower").get<double>(),
                                 found->at("upper").get<double>()};
}

VariantFigures ReadVariant(const Json& model, const std::vector<std::string>& shown) {
  VariantFigures variant{.answered = model.at("answered").get<int>(),
                         .failed = static_cast<int>(model.at("failed").size())};
  for (const std::string& name : shown) {
    variant.figures.push_back(
        {.name = name,
         .value = NumberIn(model.at("figures"), name),
         .interval = IntervalIn(model.at("intervals"), name),
         .difference = NumberIn(model.at("differences"), name),
         .difference_interval = IntervalIn(model.at("difference_intervals"), name)});
  }
  return variant;
}

std::string Number(const std::optional<double>& number, bool sign = false) {
  if (!number) return "-";
  const std::string text = Fixed(*number, 4);
  if (!sign) return text;
  if (text == "-0.0000") return "+0.0000";
  return absl::StrCat(*number >= 0 ? "+" : "", text);
}

std::string Range(const std::optional<DatasetFigure::Interval>& of, bool sign = false) {
  return of ? absl::StrCat(Number(of->lower, sign), " to ", Number(of->upper, sign)) : "-";
}

}  // namespace

absl::StatusOr<DatasetFigures> ReadDatasetFigures(std::string document) {
  try {
    const Json json = Json::parse(document);
    DatasetFigures figures{.dataset = json.at("dataset").get<std::string>(),
                           .task = json.at("task").get<std::string>(),
                           .pictures = json.at("pictures").get<int>(),
                           .document = std::move(document)};
    if (const Json& unfinished = json.at("unfinished"); !unfinished.is_null()) {
      figures.unfinished = unfinished.get<std::string>();
    }
    const auto shown = json.at("shown").get<std::vector<std::string>>();
    for (const Json& model : json.at("models")) {
      figures.variants.push_back(ReadVariant(model, shown));
    }
    return figures;
  } catch (const Json::exception&) {
    return absl::InternalError("fovea-evaluate prints something else than its figures");
  }
}

std::vector<std::vector<std::string>> DatasetRows(const DatasetFigures& figures,
                                                  const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> rows = {
      {"Data set", "Figure", "Value", "95 % interval", "Difference", "95 % interval"}};
  for (size_t i = 0; i < figures.variants.size(); ++i) {
    for (const DatasetFigure& figure : figures.variants[i].figures) {
      rows.push_back({names[i], figure.name, Number(figure.value), Range(figure.interval),
                      i == 0 ? "" : Number(figure.difference, /*sign=*/true),
                      i == 0 ? "" : Range(figure.difference_interval, /*sign=*/true)});
    }
  }
  return rows;
}

std::string DatasetConditions(const DatasetFigures& figures) {
  return absl::StrCat(figures.dataset, ": ", figures.task, ", ",
                      Count(static_cast<size_t>(figures.pictures), "picture"));
}

std::vector<std::string> DatasetNotes(const DatasetFigures& figures,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> notes;
  bool has_intervals = false;
  for (size_t i = 0; i < figures.variants.size(); ++i) {
    const VariantFigures& variant = figures.variants[i];
    for (const DatasetFigure& figure : variant.figures) has_intervals |= !!figure.interval;
    if (variant.failed == 0) continue;
    notes.push_back(absl::StrCat(names[i], ": ", variant.failed, " of ",
                                 variant.answered + variant.failed,
                                 " pictures of the data set failed and do not count."));
  }
  if (!has_intervals) notes.push_back("The data set has too few pictures for intervals.");
  return notes;
}

std::vector<std::pair<std::string, std::optional<double>>> DatasetFields(
    const DatasetFigures& figures, size_t variant) {
  std::vector<std::pair<std::string, std::optional<double>>> fields;
  const auto add = [&](const std::string& name, const std::optional<double>& value,
                       const std::optional<DatasetFigure::Interval>& interval) {
    const auto bound = [&](double DatasetFigure::Interval::*which) {
      return interval ? std::optional((*interval).*which) : std::nullopt;
    };
    fields.emplace_back(name, value);
    fields.emplace_back(name + "_lower", bound(&DatasetFigure::Interval::lower));
    fields.emplace_back(name + "_upper", bound(&DatasetFigure::Interval::upper));
  };
  for (const DatasetFigure& figure : figures.variants[variant].figures) {
    const std::string name = absl::StrCat("dataset_", absl::AsciiStrToLower(absl::StrReplaceAll(
                                                          figure.name, {{" ", "_"}, {"-", "_"}})));
    add(name, figure.value, figure.interval);
    add(name + "_difference", figure.difference, figure.difference_interval);
  }
  return fields;
}

}  // namespace fovea::client
