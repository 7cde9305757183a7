// Finds another program and becomes it. What lies in the current folder is never run: it may be
// anybody's.
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

// Becomes `companion` with `arguments`: its exit code and its signals are this process's. It is
// looked for in `folders`, in that order. Returns, with an exit code, only where that fails.
int RunCompanion(const Companion& companion, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& folders, const Console& console);

// The same beside this process, which waits for it and takes what it prints; what it says of errors
// goes where this process's goes.
struct CompanionOutput {
  int exit_code = 0;
  std::string text;
};
CompanionOutput AskCompanion(const Companion& companion, const std::vector<std::string>& arguments,
                             const std::vector<std::string>& folders, const Console& console);

}  // namespace fovea::client
