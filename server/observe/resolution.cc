#include "server/observe/resolution.h"

#include <cstdint>

namespace fovea {
namespace {

struct Rung {
  int64_t side;
  std::string_view label;
};
// The sides that models are trained at, and steps of at most a third between them.
constexpr Rung kRungs[] = {
    {32, "32"},     {48, "48"},     {64, "64"},     {80, "80"},     {96, "96"},     {112, "112"},
    {128, "128"},   {160, "160"},   {192, "192"},   {224, "224"},   {256, "256"},   {288, "288"},
    {320, "320"},   {384, "384"},   {448, "448"},   {512, "512"},   {576, "576"},   {640, "640"},
    {768, "768"},   {896, "896"},   {1024, "1024"}, {1152, "1152"}, {1280, "1280"}, {1536, "1536"},
    {1792, "1792"}, {2048, "2048"}, {2560, "2560"}, {3072, "3072"}, {4096, "4096"}};

}  // namespace

std::string_view ResolutionLabel(const ImageSize& size) {
  for (const Rung& rung : kRungs) {
    if (size.height * size.width <= rung.side * rung.side) return rung.label;
  }
  return "larger";
}

}  // namespace fovea
