// What a forward pass may ask of and tell to whoever runs it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "model_zoo/model_description.h"

namespace fovea::models {

struct Grid;  // layers/grid.h

// The default one: never stops, records nothing. Serving overrides ShouldStop; measures and Explain
// override Record.
class ForwardContext {
 public:
  virtual ~ForwardContext() = default;

  // Asked between blocks, so it returns at once: true when nobody waits for the pass any more.
  virtual bool ShouldStop() { return false; }

  // How much of an image of the batch, from its upper left corner, shows the picture; the rest of
  // `input` was filled up.
  virtual ImageSize Content(int64_t /*image*/, const ImageSize& input) const { return input; }

  // An intermediate tensor under a layer's name, for example ("blocks.3.attn", "attention").
  virtual void Record(std::string_view /*layer*/, std::string_view /*name*/,
                      const at::Tensor& /*tensor*/) {}
  // Whether Record does anything; producing what it wants may cost the fast path.
  virtual bool Recording() const { return false; }

  // The weights [B, heads, tokens, tokens] of a layer's attention over `grid`'s tokens. They come
  // from the references and cost N x N memory: only where WantsMaps() says so, besides Recording().
  virtual void RecordMap(std::string_view /*layer*/, const at::Tensor& /*weights*/,
                         const Grid& /*grid*/) {}
  virtual bool WantsMaps() const { return false; }
  // Asked before each of them is made. False: that one is too large.
  virtual bool WantsMap(std::string_view /*layer*/, int64_t /*heads*/, const Grid& /*grid*/) {
    return true;
  }
  // Whether the pass goes on through the recorded weights, which then take part in autograd, where
  // the attention can do so (AttentionModule::Apply).
  virtual bool DifferentiatesMaps() const { return false; }

  // The pass enters a stage ("stem", "stage1", ..., "head"): marks for the memory ledger.
  virtual void EnterStage(std::string_view /*name*/) {}

  // Whether the pass is to hold what one holds at most, whatever its images show: work that follows
  // from what is found is done for as much as there may be. The warm-up's plain picture shows
  // nothing.
  virtual bool Fullest() const { return false; }
};

}  // namespace fovea::models
