#include "model_zoo/attention/factory.h"

#include <c10/util/Exception.h>

#include <utility>

namespace fovea::models {
namespace {

// Puts the attention and the place before what a builder has to say.
template <typename Build>
auto InWords(const AttentionSpec& spec, const std::string& where, Build build) {
  try {
    return build();
  } catch (const c10::ValueError& error) {
    C10_THROW_ERROR(ValueError, "attention '" + spec.Canonical() + "' cannot stand in " + where +
                                    ": " + error.msg());
  }
}

}  // namespace

AttentionFactory::AttentionFactory(const AttentionTable& table, AttentionSpec spec,
                                   std::string where, ModuleBuilder own_module,
                                   std::string own_name)
    : table_(table),
      spec_(std::move(spec)),
      where_(std::move(where)),
      own_module_(std::move(own_module)),
      own_name_(std::move(own_name)) {}

std::shared_ptr<const AttentionCore> AttentionFactory::Core(const CoreSite& site) const {
  const CoreEntry* entry = FindEntry(table_.cores, spec_.core);
  TORCH_CHECK_VALUE(entry != nullptr, "the attention core '", spec_.core, "' is not available yet");
  return entry->make(spec_, site);
}

bool AttentionFactory::HasDenseCore() const {
  const CoreEntry* entry = FindEntry(table_.cores, spec_.core);
  return entry != nullptr && entry->dense;
}

std::shared_ptr<AttentionModule> AttentionFactory::Module(const ModuleSite& site) const {
  return InWords(spec_, where_, [&] {
    TORCH_CHECK_VALUE(site.heads > 0 && site.channels % site.heads == 0, site.channels,
                      " channels do not divide by ", site.heads, " heads");
    std::shared_ptr<AttentionModule> module;
    if (spec_.module.empty() || spec_.module == own_name_) {
      module = own_module_(spec_, site, *this);
    } else {
      const AttentionModuleEntry* entry = FindEntry(table_.modules, spec_.module);
      TORCH_CHECK_VALUE(entry != nullptr, "the attention module '", spec_.module,
                        "' is not available yet");
      module = entry->make(spec_, site, *this);
    }
    if (module->heads() == 0) module->SetHeads(site.heads);
    return module;
  });
}

}  // namespace fovea::models
