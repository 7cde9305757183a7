// What every module of the zoo is: a torch module that can be prepared for inference.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

namespace fovea::models {

// Where and in which type of activations a prepared module runs.
struct Placement {
  c10::Device device = c10::kCPU;
  c10::ScalarType dtype = at::kFloat;  // kFloat, kBFloat16 or, but on the CPU, kHalf
  bool int8 = false;  // linear layers multiply 8-bit integers (the CPU's), between such activations
};

// Two states, one way: trainable (parameters under their published names, autograd works) ->
// prepared (inference only: parameters cast, packed and no longer listed). Prepare is called once,
// before the module is shared between threads; forward functions are const and thread-safe in both
// states, but for batch norms that are training.
//   A layer is built for one input size, and so are its children. For another size it is built
// again, as a plan (model_zoo/model.h): that holds what follows from the size, and shares the rest.
class Layer : public torch::nn::Module {
 public:
  // The default prepares the children, then moves and casts this layer's own parameters; buffers
  // are moved.
  virtual void Prepare(const Placement& placement);

  // For a layer that was built for another input size: takes over from `loaded`, the same layer of
  // the same model, prepared, all that does not follow from the size, and holds it together with
  // it. Before Prepare, which then prepares what does follow from it.
  virtual void ShareWeights(const Layer& loaded);

  // What this layer and its children hold, packed weights included, and of a plan only what it does
  // not share. Nothing is counted twice.
  int64_t WeightBytes() const;

  // Whether this layer's own `parameter` was declared as following from the input size.
  bool FollowsSize(const std::string& parameter) const { return sized_.contains(parameter); }

  // A tensor of a weight file for this layer's own `parameter`, which may have been trained for
  // another input size, in the shape that this layer needs: interpolated where the architecture
  // knows how; `stored` itself where nothing has to change. By default that; a wrong shape is then
  // refused. Throws c10::ValueError in words where the number of tokens cannot change.
  virtual at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const;

  bool prepared() const { return prepared_; }
  // The type that activations have on the way in and out.
  c10::ScalarType activations() const { return activations_; }

 protected:
  // Registers a child layer under `name`, a part of the published parameter names.
  template <typename Child, typename... Args>
  std::shared_ptr<Child> Add(const std::string& name, Args&&... args) {
    return register_module(name, std::make_shared<Child>(std::forward<Args>(args)...));
  }

  // Declares a parameter of `shape`, not yet filled.
  at::Tensor AddParameter(const std::string& name, at::IntArrayRef shape);

  // The same of one whose shape or meaning follows from the input size: Resized knows how.
  at::Tensor AddSizedParameter(const std::string& name, at::IntArrayRef shape);

  // Declares a buffer: numbers of a checkpoint that are no parameters (running statistics).
  at::Tensor AddBuffer(const std::string& name, at::IntArrayRef shape);

  // WeightBytes without the children's.
  virtual int64_t OwnBytes() const;

  // Where a few numbers go that the CPU's kernels read in fp32, whatever type activations have.
  static Placement InFp32OnCpu(const Placement& placement);

  void PrepareChildren(const Placement& placement);  // those that are not shared
  void MarkPrepared(const Placement& placement);     // the last step of every Prepare

  // Forgets the listed parameters and buffers: what a layer keeps beyond this call it owns in
  // another form.
  void ReleaseParameters();

  // For overrides of ShareWeights in layers that keep nothing that follows from the size: this one
  // lists what `loaded` does and is prepared as that is.
  void ShareState(const Layer& loaded);
  bool shared() const { return shared_; }

 private:
  void ShareBuffers(const Layer& loaded);

  std::set<std::string> sized_;
  bool shared_ = false;
  bool prepared_ = false;
  c10::ScalarType activations_ = at::kFloat;
};

}  // namespace fovea::models
