// What a backbone is given in place of an attention: it asks for a core or a module for a place and
// never learns which attentions exist.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/attention_spec.h"
#include "model_zoo/attention/attention_table.h"

namespace fovea::models {

class AttentionFactory {
 public:
  // `where` names the backbone, and the stage where there are several, in errors. `own_module` is
  // the backbone's own, for specs that name a core only, or the module `own_name`; it may be one
  // that the table does not list, or lists without what only this backbone has, and know more of
  // its place than a site says.
  using ModuleBuilder = std::function<std::shared_ptr<AttentionModule>(
      const AttentionSpec& spec, const ModuleSite& site, const AttentionFactory& cores)>;
  // `table` outlives it.
  AttentionFactory(const AttentionTable& table, AttentionSpec spec, std::string where,
                   ModuleBuilder own_module, std::string own_name = "");

  // Both throw c10::Error in words when the attention is not available or cannot stand there.
  std::shared_ptr<const AttentionCore> Core(const CoreSite& site) const;
  std::shared_ptr<AttentionModule> Module(const ModuleSite& site) const;

  // Whether its core is a softmax over all keys, with the spec's temperature and nothing else.
  bool HasDenseCore() const;

 private:
  const AttentionTable& table_;
  const AttentionSpec spec_;
  const std::string where_;
  const ModuleBuilder own_module_;
  const std::string own_name_;  // empty: it has none
};

}  // namespace fovea::models
