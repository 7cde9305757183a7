#include "client/cpp/cli/command_help.h"

namespace fovea::client {

HelpText::HelpText() {
  column_width(30);
  label("SUBCOMMAND", "COMMAND");
  label("Positionals", "Arguments");
}

std::string HelpText::make_description(const CLI::App* app) const {
  return app->get_description() + ".\n\n";
}

std::string HelpText::make_option_opts(const CLI::Option* option) const {
  return option->get_type_size() == 0 ? "" : " " + option->get_type_name();
}

std::string HelpText::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (!option->get_default_str().empty()) text += " (default: " + option->get_default_str() + ")";
  if (!option->get_envname().empty()) text += " (environment: " + option->get_envname() + ")";
  return text;
}

CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& description,
                     const std::string& examples) {
  CLI::App* command = app.add_subcommand(name, description);
  command->group("Commands");
  command->footer("Examples:\n" + examples);
  command->fallthrough();  // `fovea models --server X` is as good as `fovea --server X models`
  return command;
}

}  // namespace fovea::client
