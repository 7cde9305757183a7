// How the help of `fovea` and of its commands reads.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace fovea::client {

// CLI11's help without the checks that stand behind an option. An app's commands inherit it.
class HelpText : public CLI::Formatter {
 public:
  HelpText();
  std::string make_description(const CLI::App* app) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

// `examples`: lines, each of them ended.
CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& description,
                     const std::string& examples);

}  // namespace fovea::client
