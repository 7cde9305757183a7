#include "model_zoo/attention/modules/modules.h"

#include <c10/util/Exception.h>

namespace fovea::models {

void RefusePrefixTokens(const ModuleSite& site) {
  TORCH_CHECK_VALUE(site.grid.prefix_tokens == 0,
                    "it needs tokens that lie on a map, and this backbone has ",
                    site.grid.prefix_tokens, " that do not (class or distillation token)");
}

void RefuseUnevenHeads(const ModuleSite& site, int64_t parts) {
  TORCH_CHECK_VALUE(site.heads % parts == 0, "it splits its heads into ", parts,
                    " equal parts, which ", site.heads, " heads do not divide into");
}

}  // namespace fovea::models
