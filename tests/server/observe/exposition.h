// A strict reader of Prometheus' text format (version 0.0.4): what it does not understand fails the
// test.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace fovea {

struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    EXPECT_TRUE(text.ends_with('\n'));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) ReadLine(line);
    for (const auto& [family, type] : types_) {
      if (type == "histogram") CheckHistogram(family);
    }
  }

  const std::vector<Sample>& samples() const { return samples_; }
  std::string type(const std::string& family) const {
    const auto found = types_.find(family);
    return found == types_.end() ? "" : found->second;
  }

  // The samples of a name whose labels include `labels`.
  std::vector<Sample> Find(const std::string& name,
                           const std::map<std::string, std::string>& labels = {}) const {
    std::vector<Sample> found;
    for (const Sample& sample : samples_) {
      bool match = sample.name == name;
      for (const auto& [label, value] : labels) {
        const auto at = sample.labels.find(label);
        match = match && at != sample.labels.end() && at->second == value;
      }
      if (match) found.push_back(sample);
    }
    return found;
  }
  // Their sum.
  double Sum(const std::string& name, const std::map<std::string, std::string>& labels = {}) const {
    double sum = 0;
    for (const Sample& sample : Find(name, labels)) sum += sample.value;
    return sum;
  }

 private:
  void ReadLine(const std::string& line) {
    static const std::regex help("# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)");
    static const std::regex type("# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)");
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      EXPECT_FALSE(match[2].str().empty()) << line;
      return;
    }
    if (std::regex_match(line, match, type)) {
      EXPECT_TRUE(types_.emplace(match[1], match[2]).second) << "twice: " << line;
      family_ = match[1];
      // Triton's counters have no such ending.
      EXPECT_TRUE(match[2] != "counter" || family_.ends_with("_total") ||
                  family_.starts_with("nv_"))
          << line;
      return;
    }
    ReadSample(line);
  }

  void ReadSample(const std::string& line) {
    static const std::regex plain("([a-zA-Z_:][a-zA-Z0-9_:]*)(\\{.*\\})? ([^ ]+)");
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, plain)) << line;
    Sample sample{.name = match[1]};
    EXPECT_TRUE(sample.name == family_ ||
                (types_[family_] == "histogram" &&
                 (sample.name == family_ + "_bucket" || sample.name == family_ + "_sum" ||
                  sample.name == family_ + "_count")))
        << line << " does not belong to " << family_;
    ReadLabels(match[2], &sample.labels);
    size_t read = 0;
    const std::string number = match[3];
    sample.value = number == "+Inf" ? INFINITY : std::stod(number, &read);
    EXPECT_TRUE(number == "+Inf" || read == number.size()) << line;
    EXPECT_TRUE(seen_.insert({sample.name, sample.labels}).second) << "twice: " << line;
    samples_.push_back(std::move(sample));
  }

  static void ReadLabels(std::string text, std::map<std::string, std::string>* labels) {
    if (text.empty()) return;
    text = text.substr(1, text.size() - 2);
    static const std::regex label("([a-zA-Z_][a-zA-Z0-9_]*)=\"((?:[^\"\\\\]|\\\\[\\\\\"n])*)\",?");
    while (!text.empty()) {
      std::smatch match;
      ASSERT_TRUE(std::regex_search(text, match, label, std::regex_constants::match_continuous))
          << text;
      EXPECT_TRUE(labels->emplace(match[1], match[2]).second) << text;
      text = match.suffix();
    }
  }

  // Bounds ascend, counts do not fall, and the last bucket holds everything.
  void CheckHistogram(const std::string& family) {
    struct Series {
      double bound = -INFINITY, count = 0;
      bool has_sum = false;
    };
    std::map<std::map<std::string, std::string>, Series> all;
    for (const Sample& sample : Find(family + "_bucket")) {
      std::map<std::string, std::string> labels = sample.labels;
      const std::string le = labels.extract("le").mapped();
      Series& series = all[labels];
      const double bound = le == "+Inf" ? INFINITY : std::stod(le);
      EXPECT_GT(bound, series.bound) << family;
      EXPECT_GE(sample.value, series.count) << family;
      series.bound = bound;
      series.count = sample.value;
    }
    for (const Sample& sample : Find(family + "_sum")) all[sample.labels].has_sum = true;
    for (const Sample& sample : Find(family + "_count")) {
      EXPECT_EQ(all[sample.labels].count, sample.value) << family;
    }
    for (const auto& [labels, series] : all) {
      EXPECT_TRUE(std::isinf(series.bound) && series.bound > 0) << family;
      EXPECT_TRUE(series.has_sum) << family;
    }
  }

  std::vector<Sample> samples_;
  std::map<std::string, std::string> types_;
  std::set<std::pair<std::string, std::map<std::string, std::string>>> seen_;
  std::string family_;
};

}  // namespace fovea
