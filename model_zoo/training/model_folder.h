// Writes what a server can serve: model.textproto, labels.txt and the weights as version 1.
#pragma once

#include <c10/core/ScalarType.h>

#include <filesystem>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/model_description.h"

namespace fovea::models::training {

struct ModelFolder {
  std::filesystem::path path;  // its last part is the model's name
  std::string summary;         // a line for people
  // What was trained; the options of its head as they are served. Detectors and segmenters have a
  // size.
  ModelDescription model;
  // As the pictures of the training were. Classifiers see the centre of a picture, cut as
  // crop_fraction says; the others the whole of it, as large as it fits the model's size.
  Preprocessing preprocessing;
  std::vector<std::string> labels;
};

// The folder that a command calls `out`, absolute, links followed, and without a slash behind it:
// "." has a name, too. Throws c10::ValueError where no model can be called as its last part.
std::filesystem::path FolderCalled(const std::string& out);

// Asks the rules by which a server reads a folder, before there is one: of the name, the
// description, the labels and their number. Throws c10::ValueError, with what a server would say.
void CheckServable(const ModelFolder& folder);

// Asks whether it can be written, without writing. Throws c10::ValueError where the folder, or that
// of its version, or what stands nearest above where they are missing, is no writable folder; and
// where it holds another version of a model, which would be served in place of the one written.
void CheckWritable(const std::filesystem::path& folder);

// Returns whether WriteModelFolder would replace a model there.
bool HoldsModel(const std::filesystem::path& folder);

// The model's description as it is written, in protobuf's text format.
std::string SpecOf(const ModelFolder& folder);

// Creates the folders and replaces the files that are there, each whole. `stored`: the type of the
// weights in their file. Throws c10::Error.
void WriteModelFolder(const ModelFolder& folder, const Backbone& trained, c10::ScalarType stored);

}  // namespace fovea::models::training
