#include "model_zoo/costs/papers.h"

namespace fovea::models {
namespace {

constexpr std::string_view kKvt = "KVT, table 1";
constexpr std::string_view kAewin = "AEWin, table 1";
// Every attention in Swin-T's frame. The paper does not say how 3, 6, 12 and 24 heads divide by
// four: attentions that split their heads take the layout with 4, 8, 16 and 32.
constexpr std::string_view kAewinAttentions = "AEWin, table 4";
constexpr std::string_view kStaticSmall = "Static keys, table 1";
constexpr std::string_view kStatic = "Static keys, table 2";
constexpr std::string_view kStaticPlaces = "Static keys, table 5";
constexpr std::string_view kLinglo = "LinGlo, table 2";
constexpr std::string_view kLingloLayouts = "LinGlo, table 5";
constexpr std::string_view kLingloProduct = "LinGlo, figure 4";
constexpr std::string_view kLingloPositions = "LinGlo, table 6";
constexpr std::string_view kLingloBiases = "LinGlo, figure 5";

constexpr std::string_view kSwinsOwn = "28.29 M is timm's count too; Swin's authors print 29 M";
constexpr std::string_view kCswinsOwn =
    "22.32 M is the official code's count too; its authors print 23 M";
constexpr std::string_view kCountUnsaid =
    "the layers of table 9; how the paper counts FLOPs is not said";
constexpr std::string_view kThreeStages =
    "three stages of two blocks, as table 9 has them, do not hold what is printed";

}  // namespace

const std::vector<PrintedCosts>& CostsInPapers() {
  static const std::vector<PrintedCosts> costs = {
      {"deit_tiny_patch16_224", "", kKvt, "5.7", "1.3"},
      {"deit_tiny_patch16_224", "knn:k=100", kKvt, "5.7", "1.3"},
      {"deit_small_patch16_224", "", kKvt, "22", "4.6"},
      {"deit_small_patch16_224", "knn:k=100", kKvt, "22", "4.6"},
      {"deit_small_patch16_224", "", kStatic, "22", "9.2", 2},
      {"deit_base_patch16_224", "", kStatic, "86", "35.0", 2,
       "86.57 M is timm's count too; DeiT's authors print 86 M", "twice DeiT's own 17.5, cut off"},
      {"deit_tiny_patch16_224", "", kLinglo, "5.7", ""},
      {"deit_small_patch16_224", "", kLinglo, "22.1", ""},
      {"tnt_s_patch16_224", "", kLinglo, "23.8", ""},
      {"swin_tiny_patch4_window7_224", "", kLinglo, "29.0", "", 1, kSwinsOwn},
      {"cswin_tiny_224", "", kStatic, "23", "8.6", 2, kCswinsOwn},
      {"vit_small_patch16_224.dino", "", kKvt, "22", "4.6"},
      {"so_vit_7", "", kKvt, "5.5", "1.3", 1, "5.53 M without the fixed table of positions",
       "the second-order head and stem of the authors' code"},
      {"visformer_tiny", "", kKvt, "10", "1.3"},
      {"visformer_tiny", "-|knn:k=150|knn:k=45", kKvt, "10", "1.3"},
      {"cvt_13", "", kKvt, "20", "4.6"},
      {"cvt_13", "knn:k=0.5", kKvt, "20", "4.6"},
      {"tnt_s_patch16_224", "", kKvt, "24", "5.2"},
      {"volo_d1_384", "", kKvt, "27", "22.8", 1, "",
       "timm's code counts 19.1 without the two products of the attention, which are 3.6 here"},
      {"volo_d3_448", "", kKvt, "86", "67.9", 1, "86.63 M is timm's count too",
       "timm's code counts 78.5 even without the two products of the attention"},
      {"t2t_vit_t_19", "", kKvt, "39", "9.8"},
      {"twins_svt_base", "", kKvt, "56", "8.3", 1, "",
       "timm's code counts 8.45 even without the two products of the attention"},
      {"pit_b_224", "", kKvt, "74", "12.5", 1, "",
       "timm's code counts 10.5 without the two products of the attention, which are 1.9 here"},
      {"swin_tiny_patch4_window7_224", "", kKvt, "28", "4.5"},
      {"swin_tiny_patch4_window7_224", "", kAewin, "29", "4.5", 1, kSwinsOwn},
      {"swin_base_patch4_window7_224", "", kAewin, "88", "15.4"},
      {"pale_tiny_224", "", kAewin, "22", "4.2"},
      {"pale_base_224", "", kAewin, "85", "15.6", 1, "",
       "reconstructed from the paper's totals: no code was released"},
      {"cswin_tiny_224", "", kAewin, "23", "4.3", 1, kCswinsOwn},
      {"cswin_base_224", "", kAewin, "78", "15.0", 1,
       "77.38 M is the official code's count too; its authors print 78 M"},
      {"aewin_tiny_224", "", kAewin, "23", "4.0", 1,
       "the paper gives no widths or depths: CSWin's with Swin's patch merging; with CSWin's "
       "convolutions 22.2 M"},
      {"aewin_base_224", "", kAewin, "78", "14.6", 1,
       "as aewin_tiny_224; with CSWin's convolutions 77.2 M", "with CSWin's convolutions 14.5 G"},
      {"swin_tiny_patch4_window7_224", "axial", kAewinAttentions},
      {"swin_tiny_patch4_window7_224", "criss_cross", kAewinAttentions},
      {"swin_tiny_heads4_224", "shifted_window", kAewinAttentions},
      {"swin_tiny_heads4_224", "axial", kAewinAttentions},
      {"swin_tiny_heads4_224", "criss_cross", kAewinAttentions},
      {"swin_tiny_heads4_224", "pale", kAewinAttentions},
      {"swin_tiny_heads4_224", "cross_shaped", kAewinAttentions},
      {"swin_tiny_heads4_224", "aewin", kAewinAttentions},
      {"cvt_13_32", "", kStaticSmall, "19.6", "0.17", 2, "", kCountUnsaid},
      {"cvt_13_32", "ska", kStaticSmall, "19.6", "0.22", 2,
       "a projection less than dense; the table's unnamed row prints 18.0 M", kCountUnsaid},
      {"cvt_13_32", "cska", kStaticSmall, "18.0", "0.19", 2,
       "convolutions of 9 head dims for each key place: 18.14 M", kCountUnsaid},
      {"vit_small_32", "", kStaticSmall, "9.6", "1.29", 2,
       "layers, widths and heads of table 9 count 9.53 M; what else the authors' ViT holds is not "
       "said",
       kCountUnsaid},
      {"vit_small_32", "ska", kStaticSmall, "9.5", "1.28", 2,
       "algorithm 1 has a projection less; the table's unnamed row prints 8.1 M",
       "a projection less than dense"},
      {"vit_small_32", "cska", kStaticSmall, "10.0", "1.33", 2,
       "algorithm 2 with 64 key channels a head, as many as places; with its num_tokens = 65, "
       "which does not run, 9.75 M",
       kCountUnsaid},
      {"cait_small_32", "", kStaticSmall, "12.7", "1.42", 2, "", kCountUnsaid},
      {"cait_small_32", "ska", kStaticSmall, "12.7", "1.41", 2,
       "a projection less in the six patch layers; the table's unnamed row prints 11.3 M",
       "a projection less than dense"},
      {"cait_small_32", "cska", kStaticSmall, "12.8", "1.44", 2,
       "12.89 M, printed cut off rather than rounded, as elsewhere in that table", kCountUnsaid},
      {"swin_tiny_32", "", kStaticSmall, "26.6", "1.05", 2, kThreeStages, kThreeStages},
      {"swin_tiny_32", "ska", kStaticSmall, "26.7", "0.99", 2, kThreeStages, kThreeStages},
      {"swin_tiny_32", "cska", kStaticSmall, "26.8", "1.52", 2, kThreeStages, kThreeStages},
      {"swin_tiny_patch4_window7_224", "", kStatic, "29", "9.0", 2, kSwinsOwn},
      {"swin_base_patch4_window7_224", "", kStatic, "88", "30.8", 2, "",
       "twice Swin's own 15.4, which is rounded"},
      {"caformer_s18", "", kStatic, "26", "8.2", 2},
      {"caformer_s18", "conv|conv|ska|dense", kStaticPlaces},
      {"caformer_s18", "conv|conv|dense|ska", kStaticPlaces},
      {"caformer_s18", "conv|conv|cska|dense", kStaticPlaces},
      {"caformer_s18", "conv|conv|dense|cska", kStaticPlaces},
      {"skaformer_s18", "", kStatic, "26", "8.0", 2,
       "26.34 M without the static keys of 784 places, which the paper leaves out",
       "the formula N (2 N D + 3 D^2) of table 6 gives ours, the printed ones have no N^2"},
      {"cskaformer_s18", "", kStatic, "28", "8.2", 2, "28.97 M, printed cut off",
       "the formula N (10 N D + 3 D^2) of table 6 gives ours, the printed ones have no N^2"},
      {"caformer_b36", "", kStatic, "99", "46.4", 2, "", "twice a rounded 23.2"},
      {"skaformer_b36", "", kStatic, "97", "45.6", 2, "97.67 M without the static keys",
       "as skaformer_s18"},
      {"cskaformer_b36", "", kStatic, "119", "48.4", 2, "", "as cskaformer_s18"},
      {"linglo_b0", "", kLinglo, "3.4", "", 1,
       "matrices of C x C, as equation 4 says, and four RP-CPE branches; merged 3.60 M; U_1 for "
       "each head 3.42 M"},
      {"linglo_b0", "dense", kLingloProduct},
      {"linglo_b0_cpe", "", kLingloPositions},
      {"linglo_b0_r_cpe", "", kLingloPositions},
      {"linglo_b0_p_cpe", "", kLingloPositions},
      {"linglo_b0_wo_c", "", kLingloBiases},
      {"linglo_wo_ch", "", kLingloBiases},
      {"linglo_b1", "", kLinglo, "13.1", "", 1,
       "as linglo_b0; merged 13.73 M; U_1 for each head 12.99 M"},
      {"linglo_b2", "", kLinglo, "25.4", "", 1,
       "as linglo_b0; merged 25.14 M; no reading gives all three printed counts"},
      {"linglo_b0_cchh", "", kLingloLayouts, "3.3", "", 1,
       "as linglo_b0; what the convolutional block is, beyond its SE, is not said"},
      {"linglo_b0_chhh", "", kLingloLayouts, "3.4", "", 1,
       "as linglo_b0; what the convolutional block is, beyond its SE, is not said"},
  };
  return costs;
}

}  // namespace fovea::models
