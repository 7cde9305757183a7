// Commands of `fovea` that another program carries out. What lies in the current folder is never
// run: it may be anybody's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "client/cpp/cli/console.h"

namespace fovea::client {

// The folder of the running program.
std::filesystem::path OwnFolder();

// The folders of the environment's PATH, without relative ones.
std::vector<std::string> FoldersOnPath();

// Where the Python package's programs may be, best first: beside `own_folder`'s programs, in
// `on_path`, and in the Python environment of the checkout that `own_folder` lies in.
std::vector<std::string> PythonFolders(const std::filesystem::path& own_folder,
                                       const std::vector<std::string>& on_path);

struct Companion {
  std::string program;
  std::string comes_from;  // what installs it, for whoever lacks it
};

// Runs `companion` with `arguments` and returns its exit code. It is looked for in `folders`, in
// that order. Ctrl-C is for the companion, which a terminal sends it too: this process waits for
// how it ends.
int RunCompanion(const Companion& companion, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& folders, const Console& console);

}  // namespace fovea::client
