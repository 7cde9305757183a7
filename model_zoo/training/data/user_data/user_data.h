// A user's own data: found by its layout on disk.
#pragma once

#include <filesystem>
#include <vector>

#include "model_zoo/model_description.h"
#include "model_zoo/training/data/user_data/held_out.h"

namespace fovea::models::training {

struct UserDataOptions {
  std::filesystem::path images;  // where the pictures of COCO's annotations are; empty: looked for
  double held_out = 0.1;         // of the training, where there is no validation
  ReadProgress progress;         // told of what takes long
};

// The tasks that `folder` holds data for, by its layout: several where it holds masks and boxes. A
// file is COCO's JSON. Throws DataError, in words, where there is none: it is not there, holds data
// of another tool (other_tools.h), or nothing that is known.
std::vector<Task> TasksOf(const std::filesystem::path& folder);

// What a model of that task learns from in `folder`, and what it is measured by: the layouts of
// docs/measuring/datasets.md, with its parts in one folder. SPLIT is train or training, and val,
// valid or validation, in any case; where there is no validation, held_out of the training is
// (HoldOut).
//
//   CLASSIFICATION  a folder of pictures for each class: CLASS/*.jpg, or SPLIT/CLASS/*.jpg
//   DETECTION       COCO's JSON. One of: `folder` itself, a file; SPLIT/*.json; the .json in
//                   annotations/ or in the folder whose name holds SPLIT
//                   ("instances_train2017.json"; where there are several, the one that begins with
//                   "instances"); the only .json there. Pictures are in PictureFolders' places
//   SEGMENTATION    images/ and masks/, or SPLIT/images and SPLIT/masks, or images/SPLIT and
//                   masks/SPLIT: PNG masks called as their pictures; labels.txt in the folder names
//                   the levels (mask_folder.h)
//
// Pictures are of every format that the server reads.
// Every picture is read once: those that cannot be are left out, and told of in the notes
// (readable.h). Throws DataError, in words, where nothing of this is there, the two sides have
// other labels, more than half of a side cannot be read, or there is nothing to learn.
TrainingData OpenUserData(const std::filesystem::path& folder, Task task,
                          const UserDataOptions& options = {});

}  // namespace fovea::models::training
