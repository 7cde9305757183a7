#include "server/check/folder_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "server/check/report.h"
#include "tests/model_zoo/folder/temp_repository.h"
#include "tests/server/repository/fake_models.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class FolderCheckTest : public ::testing::Test {
 protected:
  std::vector<CheckedFolder> Check(std::string_view path) {
    auto checked = CheckFolders(disk_ / path, models_.Factory());
    EXPECT_TRUE(checked.ok()) << checked.status();
    return checked.ok() ? *std::move(checked) : std::vector<CheckedFolder>();
  }
  // What is said of the one folder, "FILE:LINE version: sentence" each.
  std::vector<std::string> Findings(std::string_view path) {
    const std::vector<CheckedFolder> checked = Check(path);
    EXPECT_THAT(checked, SizeIs(1));
    std::vector<std::string> said;
    for (const Finding& finding : checked.at(0).findings) {
      said.push_back(finding.file + ":" + std::to_string(finding.line) + " " +
                     std::to_string(finding.version) + ": " + finding.sentence);
    }
    return said;
  }

  TempRepository disk_;
  FakeModels models_;
};

TEST_F(FolderCheckTest, AGoodFolderHasItsVersionsLoadedAndNoFinding) {
  disk_.AddModel("cats", "version_policy { latest { num_versions: 2 } }", 1);
  disk_.AddVersion("cats", 2);
  disk_.AddVersion("cats", 3);
  const std::vector<CheckedFolder> checked = Check("cats");
  ASSERT_THAT(checked, SizeIs(1));
  EXPECT_THAT(checked[0].findings, IsEmpty());
  EXPECT_THAT(checked[0].versions, ElementsAre(2, 3));
  EXPECT_EQ(models_.Begun("cats"), 2);
  EXPECT_THAT(ReportText(checked), EndsWith("/cats: ok (versions 2, 3)\n"));
  EXPECT_THAT(ReportJson(checked), HasSubstr("\"fast_decode\": false"));
}

TEST_F(FolderCheckTest, AModelThatDoesNotDecodeAsPillowDoesSaysSo) {
  disk_.AddModel("cats", "preprocessing { fast_decode: true }", 1);
  const std::vector<CheckedFolder> checked = Check("cats");
  EXPECT_THAT(ReportText(checked), EndsWith("/cats: ok (version 1), fast_decode\n"));
  EXPECT_THAT(ReportJson(checked), HasSubstr("\"fast_decode\": true"));
}

TEST_F(FolderCheckTest, EveryFaultOfAFolderIsToldAtOnce) {
  disk_.AddModel("cats",
                 "nmae: \"cats\"\nnum_classes: -1\nmax_batch_size: 0\n"
                 "dynamic_batching { priority_levels: 5000 max_queue_delay: 1 }\n");
  disk_.Write("cats/labels.txt", "tom\n\nkitty\n\xff\n");
  disk_.Write("cats/1/model.safetensors", "PK\x03\x04 and so on");
  disk_.Write("cats/2/model.onnx", "?");
  EXPECT_THAT(
      Findings("cats"),
      ElementsAre("model.textproto:3 0: model.textproto:3: unknown field \"nmae\"",
                  "model.textproto:6 0: model.textproto:6: unknown field \"max_queue_delay\"",
                  StartsWith("model.textproto:4 0: model.textproto:4: num_classes is -1"),
                  StartsWith("model.textproto:5 0: model.textproto:5: max_batch_size is 0"),
                  StartsWith("model.textproto:6 0: model.textproto:6: priority_levels is 5000"),
                  "labels.txt:2 0: labels.txt:2: empty", "labels.txt:4 0: labels.txt:4: not UTF-8",
                  StartsWith("1/model.safetensors:0 1: unsupported weight format: "),
                  HasSubstr("2: unsupported weight format: '2/model.onnx' is a .onnx file")));
}

TEST_F(FolderCheckTest, AFaultOfTheModelIsToldBesideThoseOfItsFiles) {
  disk_.AddModel("cats", "num_classes: 3");
  disk_.Write("cats/labels.txt", "tom\nkitty\n");
  models_.SetClasses(3);
  models_.Fail("cats", FailedPrecondition("model.load_failed", "there is no backbone 'x'"));
  EXPECT_THAT(Findings("cats"),
              ElementsAre(HasSubstr("labels.txt has 2 lines, and the model has 3 classes"),
                          ":0 1: there is no backbone 'x'"));
  models_.Fail("cats", absl::OkStatus());
  EXPECT_THAT(Findings("cats"), SizeIs(1)) << "the labels are not told twice";
}

// docs/faults.md, row 26.
TEST_F(FolderCheckTest, WhatLeadsOutOfTheFolderIsToldFileByFile) {
  TempRepository outside;
  outside.AddModel("secret");
  disk_.AddModel("cats");
  disk_.Remove("cats/1");
  std::filesystem::create_symlink(outside / "secret/1", disk_ / "cats/1");
  ASSERT_EQ(mkfifo((disk_ / "cats/labels.txt").c_str(), 0600), 0);
  EXPECT_THAT(Findings("cats"),
              ElementsAre(HasSubstr("cats/labels.txt is not a regular file"),
                          HasSubstr("cats/1/model.safetensors leads out of the repository")));
  EXPECT_EQ(models_.Begun("cats"), 0);
  disk_.Remove("cats/model.textproto");
  std::filesystem::create_hard_link(outside / "secret/model.textproto",
                                    disk_ / "cats/model.textproto");
  EXPECT_THAT(Findings("cats"), SizeIs(3));
}

TEST_F(FolderCheckTest, AFolderWithoutADescriptionHasItsOtherFilesLookedAt) {
  disk_.Write("cats/1/model.safetensors", "\x80\x04 a pickle");
  disk_.Write("cats/2/model.safetensors", EmptySafetensors());
  disk_.Write("cats/3/model.safetensors", std::string("\x40\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(Findings("cats"),
              ElementsAre(HasSubstr("no model.textproto"), HasSubstr("is a pickle"),
                          AllOf(HasSubstr(" 3: "), HasSubstr("a header of 64 bytes"))));
}

TEST_F(FolderCheckTest, AVersionThatThePolicyDoesNotServeIsLeftAlone) {
  disk_.AddModel("cats", "", 2);
  disk_.Write("cats/1/model.safetensors", "PK\x03\x04 and so on");
  EXPECT_THAT(Findings("cats"), IsEmpty());
  disk_.AddModel("cats", "version_policy { specific { versions: 7 } }", 2);
  EXPECT_THAT(Findings("cats"), ElementsAre(HasSubstr("serves no version there is")));
}

TEST_F(FolderCheckTest, ARepositoryHasAllOfItsModelsChecked) {
  disk_.AddModel("good");
  disk_.AddModel("bad", "max_batch_size: -3");
  disk_.Write("knn/model.textproto", kPlainSpec + std::string("weights_of: \"nothing\""));
  disk_.Write("not a model/x", "");
  const std::vector<CheckedFolder> checked = Check("");
  ASSERT_THAT(checked, SizeIs(4));
  EXPECT_THAT(checked[0].findings.at(0).sentence, HasSubstr("not a model"));
  EXPECT_EQ(checked[1].path.filename(), "bad");
  EXPECT_THAT(checked[1].findings, SizeIs(1));
  EXPECT_THAT(checked[2].findings, IsEmpty());
  EXPECT_THAT(checked[3].findings.at(0).sentence, HasSubstr("no model nothing"));
}

TEST_F(FolderCheckTest, ACanaryIsAskedWhereVersionsAnswer) {
  disk_.AddModel("cats", "canary { input: \"cat.jpg\" top_class: \"cat\" }");
  disk_.Write("cats/cat.jpg", "a picture");
  int asked = 0;
  std::string label = "dog";
  models_.AnswerWith([&](const InferenceRequest&) {
    ++asked;
    InferenceResponse response;
    response.results = ClassifyResults{{{.index = 4, .label = label}}};
    return response;
  });
  const auto findings = [&](bool ask_canaries) {
    return CheckFolders(disk_ / "cats", models_.Factory(), ask_canaries)->at(0).findings;
  };
  EXPECT_THAT(findings(false), IsEmpty());
  EXPECT_EQ(asked, 0);
  const std::vector<Finding> wrong = findings(true);
  ASSERT_THAT(wrong, SizeIs(1));
  EXPECT_EQ(wrong[0].reason, "canary.failed");
  EXPECT_EQ(wrong[0].version, 1);
  EXPECT_THAT(wrong[0].sentence, HasSubstr("class 4 (dog) comes first, and cat is expected"));
  label = "cat";
  EXPECT_THAT(findings(true), IsEmpty());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(models_.Alive(), 0);
}

TEST_F(FolderCheckTest, NoFolderAndAnEmptyOneAreToldApart) {
  EXPECT_EQ(CheckFolders(disk_ / "nothing", models_.Factory()).status().code(),
            absl::StatusCode::kNotFound);
  disk_.Write("empty/.keep", "");
  EXPECT_THAT(Findings("empty"), ElementsAre(HasSubstr("the folder holds no model")));
  disk_.AddModel("not a name");
  EXPECT_THAT(Findings("not a name"), ElementsAre(HasSubstr("not one that a model can have")));
}

TEST(ReportTest, WhatAFileIsCalledDoesNotReachTheTerminal) {
  CheckedFolder folder{.path = "/models/ca\x1b[31mts"};
  folder.findings.push_back({.version = 2,
                             .file = "2/a\n\xff",
                             .line = 0,
                             .reason = "weights.x",
                             .sentence = "2/a\n\xff is bad"});
  EXPECT_EQ(ReportText({folder}), "/models/ca\\x1b[31mts: version 2: 2/a\\x0a\\xff is bad\n");
  const std::string json = ReportJson({folder});
  EXPECT_THAT(json, AllOf(HasSubstr("\"ok\": false"), HasSubstr("\"line\": null"),
                          HasSubstr("\"version\": 2"), HasSubstr("\"reason\": \"weights.x\"")));
}

}  // namespace
}  // namespace fovea
