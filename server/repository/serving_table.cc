#include "server/repository/serving_table.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model_zoo/folder/names.h"

namespace fovea {

void ServingTable::Add(std::string name, std::map<int64_t, std::shared_ptr<Servable>> versions,
                       const Labels& labels) {
  FOVEA_CHECK(!versions.empty());
  std::vector<std::string> served;
  for (const auto& [number, servable] : versions) served.push_back(std::to_string(number));
  std::string label_text;
  for (const auto& [label, number] : labels) {
    if (!versions.contains(number)) continue;  // it has failed or been retired
    labels_[name].emplace(label, number);
    label_text += (label_text.empty() ? "" : "; ") + label + "=" + std::to_string(number);
  }
  Versions& entries = models_[std::move(name)];
  for (auto& [number, servable] : versions) {
    auto view = std::make_shared<ModelView>(*servable->view());
    view->served_versions = served;
    if (!label_text.empty()) view->properties["fovea.version_labels"] = label_text;
    entries[number] = {std::move(servable), std::move(view)};
  }
}

const ServingTable::Entry* ServingTable::Find(std::string_view name,
                                              std::string_view version) const {
  const auto model = models_.find(name);
  if (model == models_.end()) return nullptr;
  if (version.empty()) return &model->second.rbegin()->second;
  std::optional<int64_t> number = ParseVersion(version);
  if (const auto labels = labels_.find(name); !number && labels != labels_.end()) {
    const auto label = labels->second.find(version);
    if (label != labels->second.end()) number = label->second;
  }
  if (!number) return nullptr;
  const auto entry = model->second.find(*number);
  return entry == model->second.end() ? nullptr : &entry->second;
}

}  // namespace fovea
