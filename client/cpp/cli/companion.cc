#include "client/cpp/cli/companion.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace fovea::client {
namespace {

std::string Find(const std::string& program, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::string path = absl::StrCat(folder, "/", program);
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

}  // namespace

std::filesystem::path OwnFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::vector<std::string> FoldersOnPath() {
  std::vector<std::string> folders;
  const char* path = std::getenv("PATH");
  for (const auto folder : absl::StrSplit(path ? path : "", ':')) {
    if (absl::StartsWith(folder, "/")) folders.emplace_back(folder);
  }
  return folders;
}

std::vector<std::string> PythonFolders(const std::filesystem::path& own_folder,
                                       const std::vector<std::string>& on_path) {
  std::vector<std::string> folders = {own_folder};
  folders.insert(folders.end(), on_path.begin(), on_path.end());
  for (std::filesystem::path folder = own_folder; folder.has_relative_path();
       folder = folder.parent_path()) {
    std::error_code unreadable;
    if (std::filesystem::exists(folder / "client/python/pyproject.toml", unreadable)) {
      folders.push_back(folder / ".venv/bin");
    }
  }
  return folders;
}

int RunCompanion(const Companion& companion, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& folders, const Console& console) {
  const std::string program = Find(companion.program, folders);
  if (program.empty()) {
    console.err << "fovea: " << companion.program
                << " is neither beside fovea nor on PATH: " << companion.comes_from << '\n';
    return kRequestFailed;
  }
  console.out.flush();
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  console.err << "fovea: cannot run " << program << ": " << std::strerror(errno) << '\n';
  return kRequestFailed;
}

}  // namespace fovea::client
