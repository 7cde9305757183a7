// A start from which a small transformer learns faster than from the published deviations.
#pragma once

#include "model_zoo/backbones/backbone.h"

namespace fovea::models::training {

// Over what Backbone::Initialise(seed) gave, by the names of timm's vision transformers, behind a
// head too; other parameters stay:
// - matrices get the deviation that keeps a signal's size (Glorot and Bengio, AISTATS 2010),
//   instead of 0.02;
// - position embeddings of tokens are the sines and cosines of rows and columns (Vaswani et al.
// 2017), so
//   that neighbours are alike;
// - keys start equal to queries: a token attends its like, as it does in trained models (after
//   Trockman and Kolter, "Mimetic initialization of self-attention layers", ICML 2023);
// - a classifier's last layer starts at zero; heads of detectors and segmenters stay as published.
void InitialiseForSmallData(Backbone& backbone);

}  // namespace fovea::models::training
