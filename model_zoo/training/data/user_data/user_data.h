// A user's own data: found by its layout on disk.
#pragma once

#include <filesystem>

#include "model_zoo/model_description.h"
#include "model_zoo/training/data/user_data/held_out.h"

namespace fovea::models::training {

// What a model of that task learns from in `folder`, and what it is measured by: the layouts of
// docs/measuring/datasets.md, with its parts in one folder. SPLIT is train or training, and val,
// valid or validation; where there is no validation, held_out of the training is (HoldOut).
//
//   CLASSIFICATION  a folder of pictures for each class: CLASS/*.jpg, or SPLIT/CLASS/*.jpg
//   DETECTION       COCO's JSON. One of: SPLIT/*.json; the .json in annotations/ or in the folder
//                   itself whose name holds SPLIT ("instances_train2017.json"; where there are
//                   several, the one that begins with "instances"); the only .json there. Pictures
//                   are in images/ or beside it, in images/SPLIT, SPLIT or SPLIT/images (or
//                   SPLIT2017, as COCO has it).
//   SEGMENTATION    images/ and masks/, or SPLIT/images and SPLIT/masks, or images/SPLIT and
//                   masks/SPLIT: PNG masks called as their pictures; labels.txt in the folder names
//                   the levels (mask_folder.h)
//
// Pictures are JPEG, PNG or WebP. Throws DataError, in words, where nothing of this is there, or
// the two sides have other labels.
TrainingData OpenUserData(const std::filesystem::path& folder, Task task, double held_out = 0.1);

}  // namespace fovea::models::training
