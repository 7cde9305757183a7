// --check-config: what would keep a server from starting or a model from being served.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model_zoo/folder/repository_fs.h"
#include "server/lifecycle/options.h"

namespace fovea {

// Every fault that can be seen without loading a model, for the operator; empty where there is
// none: a port that cannot be listened on, a file of TLS or of API keys that cannot be used, a
// collector of spans that cannot be one, a
// repository that cannot be read, a model or a version that could not be loaded, a model of
// --load-model that is not there. `repositories` are those of `options`. Opens each port for a
// moment; blocks as long as the disk and the resolving of a name take.
std::vector<std::string> CheckConfig(const ServerOptions& options,
                                     std::vector<std::unique_ptr<RepositoryFs>> repositories);

}  // namespace fovea
