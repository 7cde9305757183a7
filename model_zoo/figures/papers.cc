#include "model_zoo/figures/papers.h"

#include <cmath>
#include <cstdlib>
#include <string>

namespace fovea::models {
namespace {

constexpr std::string_view kKvt = "KVT, table 1";
constexpr std::string_view kAewin = "AEWin, table 1";
constexpr std::string_view kStaticSmall = "Static keys, table 1";
constexpr std::string_view kStatic = "Static keys, table 2";
constexpr std::string_view kLinglo = "LinGlo, table 2";
constexpr std::string_view kLingloLayouts = "LinGlo, table 5";

}  // namespace

const std::vector<PrintedFigures>& FiguresInPapers() {
  static const std::vector<PrintedFigures> figures = {
      {"deit_tiny_patch16_224", "", kKvt, "5.7", "1.3"},
      {"deit_tiny_patch16_224", "knn:k=100", kKvt, "5.7", "1.3"},
      {"deit_small_patch16_224", "", kKvt, "22", "4.6"},
      {"deit_small_patch16_224", "knn:k=100", kKvt, "22", "4.6"},
      {"vit_small_patch16_224.dino", "", kKvt, "22", "4.6"},
      {"swin_tiny_patch4_window7_224", "", kKvt, "28", "4.5"},
      {"swin_tiny_patch4_window7_224", "", kAewin, "29", "4.5"},
      {"swin_base_patch4_window7_224", "", kAewin, "88", "15.4"},
      {"swin_tiny_patch4_window7_224", "", kStatic, "29", "9.0", 2},
      {"swin_base_patch4_window7_224", "", kStatic, "88", "30.8", 2},
  };
  return figures;
}

bool RoundsTo(double counted, std::string_view printed) {
  const size_t point = printed.find('.');
  const int digits = point == printed.npos ? 0 : static_cast<int>(printed.size() - point - 1);
  const double unit = std::pow(10.0, digits);
  const double number = std::strtod(std::string(printed).c_str(), nullptr);
  return std::llround(counted * unit) == std::llround(number * unit);
}

}  // namespace fovea::models
