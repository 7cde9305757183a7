// Reads a folder as the trainer does, and writes what it read as another: copy_coco FROM TO. What
// test_coco_masks.py compares with pycocotools.
#include <cstdio>

#include "model_zoo/training/data/coco/coco_source.h"
#include "model_zoo/training/data/user_data/write_data_set.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::filesystem::path from = argv[1];
  try {
    const fovea::models::training::CocoSource source(from / "annotations.json", {from / "images"});
    fovea::models::training::WriteDataSet(source, 0, source.size(), argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
