#include "model_zoo/heads/head.h"

#include <c10/util/Exception.h>

#include <cmath>

namespace fovea::models {

ParameterInit GlorotUniform(int64_t in, int64_t out) {
  return {ParameterInit::Kind::kUniform, std::sqrt(6.0 / static_cast<double>(in + out))};
}

std::vector<int64_t> ChannelsOf(std::span<const ModelInfo::FeatureMap> maps) {
  std::vector<int64_t> channels;
  for (const ModelInfo::FeatureMap& map : maps) channels.push_back(map.channels);
  return channels;
}

int64_t WidthOf(const HeadSite& site, int64_t published) {
  TORCH_CHECK_VALUE(site.channels >= 0 && site.channels <= kMostHeadChannels, "a head has 1 to ",
                    kMostHeadChannels, " channels, not ", site.channels);
  return site.channels > 0 ? site.channels : published;
}

int64_t CocoClasses(const HeadSite& site) {
  constexpr int64_t kWithGaps = 91, kWithout = 80;
  if (site.num_classes > 0) return site.num_classes;
  return site.detection.conventions == Conventions::kTorchvision ? kWithGaps : kWithout;
}

}  // namespace fovea::models
