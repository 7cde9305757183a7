#include "client/cpp/cli/measuring_commands.h"

#include <limits>
#include <map>
#include <string>

#include "client/cpp/cli/command_help.h"
#include "client/cpp/cli/options.h"

namespace fovea::client {
namespace {

// Of comparisons and sweeps: what is run, and how.
template <typename Options>
void AddVariants(CLI::App& command, Options& options, const std::string& attention) {
  Repeatable(command.add_option("-m,--model", options.models, "NAME or NAME/VERSION; repeatable"),
             "MODEL")
      ->required();
  Repeatable(command.add_option("-a,--attention", options.attentions, attention), "ATTENTION");
}
template <typename Options>
void AddRuns(CLI::App& command, Options& options) {
  command.add_option("--batch", options.batch_size, "Images in a batch: the picture, repeated")
      ->check(InRange(1, 64))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--threads", options.threads, "Of the server's threads for models (default: all)")
      ->check(InRange(1, 1024))
      ->type_name("N");
}

}  // namespace

void AddCompare(CLI::App& app, CompareOptions& options) {
  CLI::App* command = AddCommand(
      app, "compare", "Measure attentions side by side on the same pictures",
      "  fovea compare cat.jpg --model shapes --attention dense --attention knn:k=9\n"
      "  fovea compare 'pics/*.jpg' --model dense --model trained_knn --max-time 5m --json\n"
      "The server runs them in turn on one lane, over the same decoded pictures; it has to be\n"
      "started with --enable-experiments. The first is the baseline: with one attention, each\n"
      "model as it is comes before it. Each round runs every variant twice, there and back in\n"
      "random order, and the baseline twice more as the control. A verdict needs a control whose\n"
      "interval holds 1, intervals narrower than 10 %, and times that are not autocorrelated over\n"
      "too many rounds; until it is there, measuring goes on to the bounds. Without one, it says\n"
      "why.\n");
  command
      ->add_option("FILE", options.images,
                   "Picture files, folders or quoted patterns: the rounds take them in "
                   "turn")
      ->required()
      ->type_name("");
  AddVariants(*command, options, "An attention over the model's weights; repeatable");
  command->add_option("--rounds", options.rounds, "Rounds before the first look at the verdicts")
      ->check(InRange(1, 10'000))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--max-rounds", options.max_rounds,
                   "Rounds at most, where there is no verdict yet (default: ten times --rounds)")
      ->check(InRange(1, 10'000))
      ->type_name("N");
  AddTime(*command, "--max-time", options.max_time,
          "Time after which no round begins, once --rounds are done");
  AddRuns(*command, options);
  AddJson(*command, options.json);
  command->add_flag("--csv", options.csv, "Print a row for each variant, for spreadsheets")
      ->excludes("--json");
  command
      ->add_option("--report", options.report,
                   "Also write a page with tables and plots, which needs no other file")
      ->type_name("FILE.html");
  DatasetOptions& dataset = options.dataset;
  CLI::Option* path =
      command
          ->add_option("--dataset", dataset.path,
                       "Also measure accuracy, average precision or mIoU of each on a data "
                       "set, with intervals (runs fovea-evaluate)")
          ->type_name("DIR");
  command->add_option("--limit", dataset.limit, "Pictures of it, evenly spread (default: all)")
      ->check(InRange(1, 1'000'000'000))
      ->type_name("N")
      ->needs(path);
  command
      ->add_option("--task", dataset.task, "Take it for one of this task (default: told from it)")
      ->type_name("TASK")
      ->needs(path);
  command->add_option("--images", dataset.images, "Where the pictures of COCO's annotations are")
      ->type_name("DIR")
      ->needs(path);
  command
      ->add_flag("--by-number", dataset.by_number,
                 "Match its classes and the models' by number, though both have labels")
      ->needs(path);
  AddTimeout(*command, options.call, "Deadline of the whole comparison, the data set aside");
}

void AddSweep(CLI::App& app, SweepOptions& options) {
  CLI::App* command = AddCommand(
      app, "sweep", "Measure how costs grow with the resolution, the batch, k and the like",
      "  fovea sweep --model shapes --attention dense --attention knn:k=9 --over resolution "
      "--values 64,128,256 --png growth.png\n"
      "  fovea sweep --model shapes --over batch --values 1,2,4,8,16 --csv > batches.csv\n"
      "  fovea sweep cat.jpg --model shapes --over k --values 0.25,0.5,1.0 --report k.html\n"
      "The server measures all points in rounds, there and back in random order, on one lane; it\n"
      "has to be started with --enable-experiments. Each --attention over each --model is a\n"
      "curve, to whose points a power is fitted. Over k, temperature and heads the value becomes\n"
      "an option of the attention: in the place of {}, or behind its other options. A point that\n"
      "cannot be says why, and the others go on.\n");
  command
      ->add_option("FILE", options.image,
                   "A picture's file that batches are made of; - is an image on standard "
                   "input (default: noise)")
      ->type_name("");
  AddVariants(*command, options,
              "An attention over the model's weights; repeatable (default: the model's own; over "
              "k: knn)");
  static const std::map<std::string, SweepAxis> kAxes = {{"resolution", SweepAxis::kResolution},
                                                         {"batch", SweepAxis::kBatch},
                                                         {"k", SweepAxis::kK},
                                                         {"temperature", SweepAxis::kTemperature},
                                                         {"heads", SweepAxis::kHeads},
                                                         {"threads", SweepAxis::kThreads},
                                                         {"precision", SweepAxis::kPrecision}};
  command
      ->add_option("--over", options.over,
                   "resolution, batch, k, temperature, heads, threads or precision")
      ->required()
      ->transform(CLI::CheckedTransformer(kAxes).description(""))
      ->type_name("AXIS");
  command
      ->add_option("--values", options.values,
                   "On the axis: sides in pixels, images, counts of keys (9) or shares of them "
                   "(0.5), numbers, FP32, BF16, FP16 and INT8")
      ->required()
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("V,V,...");
  command->add_option("--rounds", options.rounds, "In which each point runs twice")
      ->check(InRange(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  AddTime(*command, "--max-time", options.max_time, "Time after which no round begins");
  AddRuns(*command, options);
  AddJson(*command, options.json);
  command->add_flag("--csv", options.csv, "Print a row for each point, for spreadsheets")
      ->excludes("--json");
  command->add_option("--png", options.png, "Also write the curves as a picture")
      ->type_name("FILE.png");
  command
      ->add_option("--report", options.report,
                   "Also write a page with plots and tables, which needs no other file")
      ->type_name("FILE.html");
  AddTimeout(*command, options.call, "Deadline of the whole sweep");
}

void AddExplain(CLI::App& app, ExplainOptions& options) {
  CLI::App* command = AddCommand(
      app, "explain", "Show what a model's attention looks at in an image",
      "  fovea explain cat.jpg --model shapes --output seen/\n"
      "  fovea explain cat.jpg --model shapes --method rollout --method attribution -o seen/\n"
      "  fovea explain cat.jpg --model shapes --layer 5 --every-head --at 120,80 -o seen/\n"
      "  fovea explain cat.jpg --model shapes --attention knn:k=9 --method measures\n"
      "The server has to be started with --enable-experiments. Methods: maps, the weights of each\n"
      "layer; rollout, those of all layers one behind the other; attribution and\n"
      "gradient_rollout, what speaks for a class; measures, a table of four numbers of each\n"
      "layer and its plot. Pictures are PNG files of the image's size, one for each map.\n");
  command->add_option("FILE", options.image, "A picture's file; - is an image on standard input")
      ->required()
      ->type_name("");
  command->add_option("-m,--model", options.model, "NAME or NAME/VERSION")
      ->required()
      ->type_name("MODEL");
  command->add_option("-a,--attention", options.attention, "Over the model's weights")
      ->type_name("ATTENTION");
  static const std::map<std::string, ExplainMethod> kMethods = {
      {"maps", ExplainMethod::kMaps},
      {"rollout", ExplainMethod::kRollout},
      {"attribution", ExplainMethod::kAttribution},
      {"gradient_rollout", ExplainMethod::kGradientRollout},
      {"measures", ExplainMethod::kMeasures}};
  Repeatable(command
                 ->add_option("--method", options.methods,
                              "maps, rollout, attribution, gradient_rollout, measures; "
                              "repeatable (default: maps and measures)")
                 ->transform(CLI::CheckedTransformer(kMethods).description("")),
             "METHOD");
  Repeatable(command
                 ->add_option("--layer", options.layers,
                              "Of maps: this layer, counted from 0; repeatable (default: all)")
                 ->check(InRange(0, 1'000'000)),
             "N");
  CLI::Option* heads =
      Repeatable(command
                     ->add_option("--head", options.heads,
                                  "Of maps: this head, counted from 0; repeatable (default: "
                                  "the mean over all)")
                     ->check(InRange(0, 1'000'000)),
                 "N");
  command->add_flag("--every-head", options.every_head, "Of maps: a picture for each head")
      ->excludes(heads);
  command
      ->add_option("--at", options.place,
                   "Whose weights are shown: the patch there, in pixels of the image (default: the "
                   "class token, or the mean over all patches)")
      ->type_name("X,Y");
  command
      ->add_option("--class", options.target_class,
                   "Of attribution and gradient_rollout: the class's number (default: the most "
                   "probable one)")
      ->check(InRange(0, std::numeric_limits<int>::max()))
      ->type_name("N");
  command->add_flag("--heat", options.heat, "Draw the colours alone, not over the image");
  command->add_option("-o,--output", options.output, "The folder for the pictures")
      ->type_name("FOLDER");
  AddJson(*command, options.json);
  AddTimeout(*command, options.call, "Deadline of the request");
}

}  // namespace fovea::client
