// The commands of `fovea`. Each takes what its command line said, writes to the console and returns
// the exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/cli/console.h"
#include "client/cpp/cli/server_access.h"
#include "client/cpp/client.h"

namespace fovea::client {

struct ModelsOptions {
  bool json = false;
  CallOptions call;
};
ExitCode RunModels(Client& client, const ModelsOptions& options, const Console& console);

struct HealthOptions {
  std::vector<std::string> models;  // NAME or NAME/VERSION, which have to be ready besides
  CallOptions call = {.timeout = absl::Seconds(5)};
};
ExitCode RunHealth(Client& client, const HealthOptions& options, const Console& console);

// Of a command that asks a model about images, one a request.
struct ImagesOptions {
  std::string model;  // NAME or NAME/VERSION; empty: the server's only one of the task
  std::vector<std::string> images;  // files, folders and patterns; "-": standard input
  std::string files_from;           // a list of files; "-": standard input; empty: none
  int concurrency = 16;             // requests on their way at a time: the server can batch so many
  bool receipt = false;
  bool json = false;
  CallOptions call;
};

struct ClassifyOptions : ImagesOptions {
  int top_k = 3;
};
ExitCode RunClassify(Client& client, const ClassifyOptions& options, const Console& console);

struct DetectOptions : ImagesOptions {
  float score_threshold = 0.5f;  // objects of a lower score are left out
  int max_detections = 0;        // of each image; 0: as many as the model gives
  std::vector<std::string> classes;
  // Where pictures with what was found are written: a PNG file, or a folder; empty: nowhere.
  std::string output;
};
ExitCode RunDetect(Client& client, const DetectOptions& options, const Console& console);

struct SegmentOptions : ImagesOptions {
  std::string output;  // as DetectOptions'
};
ExitCode RunSegment(Client& client, const SegmentOptions& options, const Console& console);

struct RepositoryOptions {
  std::vector<std::string> models;
  CallOptions call = {.timeout = absl::Minutes(10)};
};
ExitCode RunLoad(Client& client, const RepositoryOptions& options, const Console& console);
ExitCode RunUnload(Client& client, const RepositoryOptions& options, const Console& console);

struct StatsOptions {
  std::string model;  // NAME or NAME/VERSION; empty: all
  bool json = false;
  CallOptions call;
};
ExitCode RunStats(Client& client, const StatsOptions& options, const Console& console);

// A data set that variants are measured on besides, as fovea-evaluate's own options have it.
struct DatasetOptions {
  std::string path;  // empty: none
  int limit = 0;     // pictures, evenly spread; 0: all
  std::string task, images;
  bool by_number = false;
};

struct CompareOptions {
  std::vector<std::string> images;      // files, folders, patterns; the rounds take them in turn
  std::vector<std::string> models;      // NAME or NAME/VERSION
  std::vector<std::string> attentions;  // over the weights of each model; none: the models' own
  int rounds = 20;                      // measured before the first look at the verdicts
  int max_rounds = 0;                   // at most, where there are none yet; 0: ten times `rounds`
  absl::Duration max_time = absl::Minutes(1);  // no round past `rounds` begins later than that
  int batch_size = 1;
  int threads = 0;  // 0: all of the server's for models
  bool json = false;
  bool csv = false;
  std::string report;  // where a page of it goes; empty: nowhere
  DatasetOptions dataset;
  CallOptions call = {.timeout = absl::Minutes(10)};
};
ExitCode RunCompare(Client& client, const CompareOptions& options, const ServerAccess& server,
                    const Console& console);

struct SweepOptions {
  std::string image;                    // a file; "-": standard input; empty: the server's noise
  std::vector<std::string> models;      // NAME or NAME/VERSION
  std::vector<std::string> attentions;  // over the weights of each model; none: the models' own
  SweepAxis over = SweepAxis::kResolution;
  std::vector<std::string> values;
  int rounds = 20;
  absl::Duration max_time = absl::Minutes(5);  // no round but the first begins later than that
  int batch_size = 1;
  int threads = 0;  // 0: all of the server's for models
  bool json = false;
  bool csv = false;
  std::string png;     // where plots of it go; empty: nowhere
  std::string report;  // where a page of it goes; empty: nowhere
  CallOptions call = {.timeout = absl::Hours(1)};
};
ExitCode RunSweep(Client& client, const SweepOptions& options, const Console& console);

struct ExplainOptions {
  std::string image;      // a file; "-": standard input
  std::string model;      // NAME or NAME/VERSION
  std::string attention;  // over the model's weights; empty: the model's own
  std::vector<ExplainMethod> methods;
  std::vector<int> layers, heads;  // of maps; empty: all, and the mean
  bool every_head = false;
  std::string place;  // "X,Y"; empty: the class token's, or the mean
  std::optional<int> target_class;
  bool heat = false;   // instead of drawing over the image
  std::string output;  // a folder; empty: no pictures
  bool json = false;
  CallOptions call = {.timeout = absl::Minutes(2)};
};
ExitCode RunExplain(Client& client, const ExplainOptions& options, const Console& console);

struct StartExperimentOptions {
  ExperimentPlan plan;            // without its model and its arms
  std::string model;              // NAME
  double baseline_weight = 1;     // of the traffic, against the arms'
  std::vector<std::string> arms;  // "attention=knn:k=50,weight=0.1"
  bool json = false;
  CallOptions call = {.timeout = absl::Minutes(10)};
};
ExitCode RunStartExperiment(Client& client, const StartExperimentOptions& options,
                            const Console& console);

struct ShowExperimentOptions {
  std::string name;
  bool watch = false;  // until it ends
  absl::Duration every = absl::Seconds(2);
  bool json = false;
  CallOptions call;
};
ExitCode RunShowExperiment(Client& client, const ShowExperimentOptions& options,
                           const Console& console);

struct ListExperimentsOptions {
  bool json = false;
  CallOptions call;
};
ExitCode RunListExperiments(Client& client, const ListExperimentsOptions& options,
                            const Console& console);

struct StopExperimentOptions {
  std::string name;
  bool json = false;
  CallOptions call;
};
ExitCode RunStopExperiment(Client& client, const StopExperimentOptions& options,
                           const Console& console);

struct DeleteExperimentOptions {
  std::string name;
  CallOptions call;
};
ExitCode RunDeleteExperiment(Client& client, const DeleteExperimentOptions& options,
                             const Console& console);

// Of `fovea experiment`, which is followed by one of these.
struct ExperimentOptions {
  StartExperimentOptions start;
  ShowExperimentOptions show;
  ListExperimentsOptions list;
  StopExperimentOptions stop;
  DeleteExperimentOptions remove;
};

}  // namespace fovea::client
