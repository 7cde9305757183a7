#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/json.h"
#include "client/cpp/cli/table.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string InputText(const ModelInfo& model) {
  if (model.inputs.empty()) return "-";
  const TensorInfo& input = model.inputs.front();
  if (input.datatype == "BYTES") return "image file";
  return absl::StrCat(ShapeText(input.shape), " ", input.datatype);
}

}  // namespace

ExitCode RunModels(Client& client, const ModelsOptions& options, const Console& console) {
  const auto models = client.Models(options.call);
  if (!models.ok()) return Report(console, models.status());
  if (options.json) {
    console.out << ModelsJson(*models) << '\n';
    return kOk;
  }
  if (models->empty()) {
    console.out << "The server's model repository is empty.\n";
    return kOk;
  }
  Table table({{"NAME"},
               {"VERSION", Table::Align::kRight},
               {"STATE"},
               {"TASK"},
               {"ATTENTION"},
               {"BACKBONE"},
               {"PRECISION"},
               {"INPUT"}});
  for (const ModelInfo& model : *models) {
    table.AddRow(
        {model.name, OrDash(model.version),
         absl::StrCat(absl::AsciiStrToLower(model.state), model.untrained ? ", untrained" : ""),
         OrDash(model.task), OrDash(model.attention), OrDash(model.backbone),
         OrDash(model.precision), InputText(model)});
  }
  table.Print(console.out, console.colour);
  for (const ModelInfo& model : *models) {
    if (model.reason.empty()) continue;
    console.out << '\n'
                << Printable(ModelText({model.name, model.version})) << ": "
                << Printable(model.reason) << '\n';
  }
  return kOk;
}

}  // namespace fovea::client
