// write_documents FOLDER: manual pages of fovea and fovea-server and their completion in bash, zsh
// and fish, from the options that the programs take. Folders as they are installed in share/.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "client/cpp/cli/app.h"
#include "deploy/documents/completion.h"
#include "deploy/documents/manual.h"
#include "server/lifecycle/options.h"

namespace {

void Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) {
    std::cerr << "write_documents: cannot write " << path << '\n';
    std::exit(1);
  }
}

void WriteCompletion(const std::filesystem::path& share, const fovea::Command& command) {
  Write(share / "bash-completion/completions" / command.name, BashCompletion(command));
  Write(share / "zsh/vendor-completions" / ("_" + command.name), ZshCompletion(command));
  Write(share / "fish/vendor_completions.d" / (command.name + ".fish"), FishCompletion(command));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "Usage: write_documents FOLDER\n";
    return 2;
  }
  const std::filesystem::path share = argv[1];
  fovea::VisitCommandLine([&](const CLI::App& app) {
    const fovea::Command server = fovea::Describe(app);
    WriteCompletion(share, server);
    Write(share / "man/man8/fovea-server.8", ManualPage(server, 8, FOVEA_VERSION, "fovea(1)"));
  });
  fovea::client::VisitCommandLine([&](const CLI::App& app) {
    const fovea::Command client = fovea::Describe(app);
    WriteCompletion(share, client);
    Write(share / "man/man1/fovea.1", ManualPage(client, 1, FOVEA_VERSION, "fovea-server(8)"));
    // The programs that `fovea` runs are told of there.
    for (const char* companion : {"fovea-capacity.1", "fovea-check.1", "fovea-kernels.1",
                                  "fovea-quantize.1", "fovea-train.1", "fovea-zoo.1"}) {
      Write(share / "man/man1" / companion, ".so man1/fovea.1\n");
    }
  });
  return 0;
}
