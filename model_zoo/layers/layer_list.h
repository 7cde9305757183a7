// A row of layers under their numbers: "0", "1", ...
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
  template <typename... Args>
  Child& Append(Args&&... args) {
    list_.push_back(Add<Child>(std::to_string(list_.size()), std::forward<Args>(args)...));
    return *list_.back();
  }

  size_t size() const { return list_.size(); }
  const Child& operator[](size_t i) const { return *list_.at(i); }

 private:
  std::vector<std::shared_ptr<Child>> list_;
};

}  // namespace fovea::models
