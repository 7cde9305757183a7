#include "tests/bench/simulation/batch_curve.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace fovea::bench {
namespace {

// RFC 4180.
std::vector<std::vector<std::string>> ReadCsv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row = {""};
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      row.back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (quoted || (c != ',' && c != '\n' && c != '\r')) {
      row.back() += c;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\n') {
      rows.push_back(std::exchange(row, {""}));
    }
  }
  if (row.size() > 1) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<BatchCurve>> ReadBatchCurves(const std::string& csv) {
  const auto rows = ReadCsv(csv);
  const char* const names[] = {"model_name", "curve", "over", "value", "compute_ms_median"};
  size_t columns[std::size(names)];
  for (size_t i = 0; i < std::size(names); ++i) {
    const auto found = rows.empty() ? std::vector<std::string>::const_iterator()
                                    : std::find(rows[0].begin(), rows[0].end(), names[i]);
    if (rows.empty() || found == rows[0].end()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no column ", names[i]));
    }
    columns[i] = static_cast<size_t>(found - rows[0].begin());
  }
  std::vector<BatchCurve> curves;
  std::map<std::string, size_t> places;
  for (size_t number = 1; number < rows.size(); ++number) {
    const auto& row = rows[number];
    const auto bad = [&](const char* why) {
      return absl::InvalidArgumentError(absl::StrCat("row ", number, " ", why));
    };
    if (row.size() != rows[0].size()) return bad("has another number of fields than the first");
    const auto field = [&](size_t i) -> const std::string& { return row[columns[i]]; };
    if (field(2) != "BATCH") return bad("is of no sweep over batch");
    if (field(4).empty()) continue;
    int images = 0;
    double ms = 0;
    if (!absl::SimpleAtoi(field(3), &images) || images < 1) return bad("has no number of images");
    if (!absl::SimpleAtod(field(4), &ms) || !(ms > 0)) return bad("has no time above zero");
    const std::string name = absl::StrCat(field(0), ", ", field(1));
    const auto [place, is_new] = places.try_emplace(name, curves.size());
    if (is_new) curves.push_back({.name = name, .model = {}});
    curves[place->second].model.measured.push_back({images, static_cast<Nanos>(ms * kMillisecond)});
  }
  if (curves.empty()) return absl::InvalidArgumentError("nothing was measured");
  for (BatchCurve& curve : curves) {
    auto& measured = curve.model.measured;
    std::sort(measured.begin(), measured.end());
    if (measured.front().first != 1) {
      return absl::InvalidArgumentError(absl::StrCat(curve.name, " has no batch of one image"));
    }
    curve.model.max_batch_size = measured.back().first;
  }
  return curves;
}

}  // namespace fovea::bench
