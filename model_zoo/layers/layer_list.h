// Layers under their numbers, "0", "1", ..., as torch's ModuleList and Sequential name them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/layers/layer.h"

namespace fovea::models {

template <typename Child>
class LayerList final : public Layer {
 public:
  void Append(std::shared_ptr<Child> child) {
    list_.push_back(register_module(std::to_string(list_.size()), std::move(child)));
  }
  template <typename... Args>
  Child& Emplace(Args&&... args) {
    Append(std::make_shared<Child>(std::forward<Args>(args)...));
    return *list_.back();
  }

  size_t size() const { return list_.size(); }
  const Child& operator[](size_t i) const { return *list_.at(i); }
  const std::vector<std::shared_ptr<Child>>& list() const { return list_; }

 private:
  std::vector<std::shared_ptr<Child>> list_;
};

}  // namespace fovea::models
