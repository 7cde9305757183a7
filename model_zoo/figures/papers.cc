#include "model_zoo/figures/papers.h"

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
      {"so_vit_7", "", kKvt, "5.5", "1.3"},
      {"visformer_tiny", "", kKvt, "10", "1.3"},
      {"visformer_tiny", "-|knn:k=150|knn:k=45", kKvt, "10", "1.3"},
      {"cvt_13", "", kKvt, "20", "4.6"},
      {"cvt_13", "knn:k=0.5", kKvt, "20", "4.6"},
      {"tnt_s_patch16_224", "", kKvt, "24", "5.2"},
      {"volo_d1_384", "", kKvt, "27", "22.8"},
      {"volo_d3_448", "", kKvt, "86", "67.9"},
      {"t2t_vit_t_19", "", kKvt, "39", "9.8"},
      {"twins_svt_base", "", kKvt, "56", "8.3"},
      {"pit_b_224", "", kKvt, "74", "12.5"},
      {"swin_tiny_patch4_window7_224", "", kKvt, "28", "4.5"},
      {"swin_tiny_patch4_window7_224", "", kAewin, "29", "4.5"},
      {"swin_base_patch4_window7_224", "", kAewin, "88", "15.4"},
      {"pale_tiny_224", "", kAewin, "22", "4.2"},
      {"pale_base_224", "", kAewin, "85", "15.6"},
      {"cswin_tiny_224", "", kAewin, "23", "4.3"},
      {"cswin_base_224", "", kAewin, "78", "15.0"},
      {"aewin_tiny_224", "", kAewin, "23", "4.0"},
      {"aewin_base_224", "", kAewin, "78", "14.6"},
      {"cvt_13_32", "", kStaticSmall, "19.6", "0.17", 2},
      {"cvt_13_32", "ska", kStaticSmall, "19.6", "0.22", 2},
      {"cvt_13_32", "cska", kStaticSmall, "18.0", "0.19", 2},
      {"vit_small_32", "", kStaticSmall, "9.6", "1.29", 2},
      {"vit_small_32", "ska", kStaticSmall, "9.5", "1.28", 2},
      {"vit_small_32", "cska", kStaticSmall, "10.0", "1.33", 2},
      {"cait_small_32", "", kStaticSmall, "12.7", "1.42", 2},
      {"cait_small_32", "ska", kStaticSmall, "12.7", "1.41", 2},
      {"cait_small_32", "cska", kStaticSmall, "12.8", "1.44", 2},
      {"swin_tiny_32", "", kStaticSmall, "26.6", "1.05", 2},
      {"swin_tiny_32", "ska", kStaticSmall, "26.7", "0.99", 2},
      {"swin_tiny_32", "cska", kStaticSmall, "26.8", "1.52", 2},
      {"swin_tiny_patch4_window7_224", "", kStatic, "29", "9.0", 2},
      {"swin_base_patch4_window7_224", "", kStatic, "88", "30.8", 2},
      {"caformer_s18", "", kStatic, "26", "8.2", 2},
      {"skaformer_s18", "", kStatic, "26", "8.0", 2},
      {"cskaformer_s18", "", kStatic, "28", "8.2", 2},
      {"caformer_b36", "", kStatic, "99", "46.4", 2},
      {"skaformer_b36", "", kStatic, "97", "45.6", 2},
      {"cskaformer_b36", "", kStatic, "119", "48.4", 2},
      {"linglo_b0", "", kLinglo, "3.4", ""},
      {"linglo_b1", "", kLinglo, "13.1", ""},
      {"linglo_b2", "", kLinglo, "25.4", ""},
      {"linglo_b0_cchh", "", kLingloLayouts, "3.3", ""},
      {"linglo_b0_chhh", "", kLingloLayouts, "3.4", ""},
  };
  return figures;
}

}  // namespace fovea::models
