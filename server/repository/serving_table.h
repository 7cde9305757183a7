// What serves right now: an immutable answer to "which version is that?", replaced as a whole
// whenever it changes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "server/core/model_catalog.h"
#include "server/repository/servable.h"

namespace fovea {

class ServingTable {
 public:
  struct Entry {
    std::shared_ptr<Servable> servable;
    std::shared_ptr<const ModelView>
        view;  // the servable's, with served_versions and labels filled in
  };
  using Versions = std::map<int64_t, Entry>;

  using Labels = std::map<std::string, int64_t, std::less<>>;

  // Adds a model with its versions, at least one, and what these are called besides. Their views
  // are taken from the servables.
  void Add(std::string name, std::map<int64_t, std::shared_ptr<Servable>> versions,
           const Labels& labels = {});

  // `version`: a number or a label; empty: the newest. Null where nothing of this name serves,
  // whatever the name looks like.
  const Entry* Find(std::string_view name, std::string_view version) const;

  const std::map<std::string, Versions, std::less<>>& models() const { return models_; }

 private:
  std::map<std::string, Versions, std::less<>> models_;
  std::map<std::string, Labels, std::less<>> labels_;  // of those that have any
};

}  // namespace fovea
