// Pictures for people: the examples of client/examples, and a sheet of what the training sees.
#pragma once

#include <cstdint>
#include <filesystem>

#include "model_zoo/training/data/generated/picture.h"

namespace fovea::models::training {

// Draws a few pictures of several sizes as JPEG files and one as PNG into the folder, each called
// after its shape ("star.jpg"), and into its folder "scenes" one of each of SceneSizes's. Throws
// std::runtime_error where a file cannot be written.
void WriteExamples(uint64_t seed, const std::filesystem::path& folder);

// `rows` rows of two of each shape as one picture, PNG or JPEG by the name (".png", ".jpg").
// Throws std::runtime_error where it cannot be written.
void WriteContactSheet(uint64_t seed, Stream stream, int rows, int side,
                       const std::filesystem::path& file);

// The first `count` pictures of the test stream, which no training sees, side x side, as PNG files
// in a folder for each shape ("star/000013.png"). Throws std::runtime_error where one cannot be
// written.
void WriteShapes(uint64_t seed, int64_t count, int side, const std::filesystem::path& folder);

}  // namespace fovea::models::training
