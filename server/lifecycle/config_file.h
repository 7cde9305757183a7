// The file of --config.
#pragma once

#include <CLI/CLI.hpp>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace fovea {

// TOML without tables: a key for each flag, by its name without dashes. Numbers, strings, true and
// false, and arrays of these for flags that can be repeated. Used by CLI11, which throws what is
// wrong as CLI::ConfigError: no TOML, a key twice or that is no flag, a table, a date.
class ConfigFile final : public CLI::Config {
 public:
  // `app` outlives this object, and has its flags before a file is read.
  explicit ConfigFile(const CLI::App& app) : app_(app) {}

  // A key whose flag has an environment variable that is set is left out: the variable goes before
  // the file.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

  // The line of a key in the file that was read last; 0: it is not in it, or none was read.
  int LineOf(const std::string& key) const {
    const auto found = lines_.find(key);
    return found == lines_.end() ? 0 : found->second;
  }

  // Every flag of `app` that a file may hold, with its value or default, as a file that gives the
  // same again. The other parameters mean nothing here.
  std::string to_config(const CLI::App* app, bool default_also, bool write_description,
                        std::string prefix) const override;

 private:
  const CLI::App& app_;
  mutable std::map<std::string, int> lines_;  // CLI11 reads files by a const method
};

}  // namespace fovea
