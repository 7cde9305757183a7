// What each file of this folder adds to the zoo.
#pragma once

#include "model_zoo/backbones/backbone_registry.h"

namespace fovea::models {

// vit_{tiny,small,base}_patch16_224, deit_{tiny,small,base}[_distilled]_patch16_224,
// vit_{small,base}_patch16_224.dino, vit_demo_patch8_64, vit_small_32, and vit, whose sizes are its
// description's.
void RegisterVit(BackboneRegistry& registry);

// swin_tiny_patch4_window7_224, swin_base_patch4_window7_224, swin_tiny_heads4_224, swin_tiny_32.
void RegisterSwin(BackboneRegistry& registry);

// aewin_tiny_224, aewin_base_224.
void RegisterAewin(BackboneRegistry& registry);

// cswin_tiny_224, cswin_base_224.
void RegisterCswin(BackboneRegistry& registry);

// pale_tiny_224, pale_base_224.
void RegisterPale(BackboneRegistry& registry);

// cvt_13, cvt_13_32.
void RegisterCvt(BackboneRegistry& registry);

// pit_b_224.
void RegisterPit(BackboneRegistry& registry);

// twins_svt_base.
void RegisterTwins(BackboneRegistry& registry);

// visformer_tiny.
void RegisterVisformer(BackboneRegistry& registry);

// volo_d1_384, volo_d3_448.
void RegisterVolo(BackboneRegistry& registry);

// tnt_s_patch16_224.
void RegisterTnt(BackboneRegistry& registry);

// t2t_vit_t_19.
void RegisterT2t(BackboneRegistry& registry);

// so_vit_7.
void RegisterSoVit(BackboneRegistry& registry);

// cait_s24_224, cait_small_32.
void RegisterCait(BackboneRegistry& registry);

// caformer_s18, caformer_b36, skaformer_s18, skaformer_b36, cskaformer_s18, cskaformer_b36.
void RegisterMetaFormer(BackboneRegistry& registry);

// linglo_b0, linglo_b1, linglo_b2, and the paper's ablations: linglo_b0_cpe, linglo_b0_r_cpe,
// linglo_b0_p_cpe, linglo_b0_chhh, linglo_b0_cchh, linglo_b0_wo_c, linglo_wo_ch.
void RegisterLinGlo(BackboneRegistry& registry);

// resnet50.
void RegisterResNet(BackboneRegistry& registry);

// demo_frame_64: one small frame in which the families of attention are trained side by side.
void RegisterDemoFrame(BackboneRegistry& registry);

// identity: for measuring what the server adds to a model.
void RegisterIdentity(BackboneRegistry& registry);

}  // namespace fovea::models
