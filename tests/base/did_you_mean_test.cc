#include "base/did_you_mean.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/command_line.h"

namespace fovea {
namespace {

using Names = std::vector<std::string>;

TEST(DidYouMeanTest, NamesTheNearestAndNoneThatIsFar) {
  const Names commands = {"check", "classify", "compare", "health", "stats"};
  const auto meant = [&](const std::string& written) { return DidYouMean(written, commands); };
  EXPECT_EQ(meant("classfy"), "; did you mean 'classify'?");
  EXPECT_EQ(meant("chekc"), "; did you mean 'check'?") << "a swap is one edit";
  EXPECT_EQ(meant("classification"), "") << "more than a third";
  EXPECT_EQ(meant("stat"), "; did you mean 'stats'?");
  EXPECT_EQ(meant("stats"), "") << "it is known, and fits nothing here";
  EXPECT_EQ(meant("sta"), "") << "too short to tell";
  EXPECT_EQ(meant("paint"), "");
  EXPECT_EQ(meant("class"), "; did you mean 'classify'?") << "its beginning";
  EXPECT_EQ(DidYouMean("vit_base", Names{"vit_base_patch16_224", "vit_bale"}),
            "; did you mean 'vit_bale'?");
  EXPECT_EQ(meant(""), "");
  EXPECT_EQ(meant(std::string(1 << 20, 'c')), "") << "at once";
  EXPECT_EQ(DidYouMean("shape", Names{"shaped", "shapes"}), "; did you mean 'shaped'?");
  EXPECT_EQ(DidYouMean("shape", Names{}), "");
}

// What is said of a program with options and commands.
std::string Refusal(const std::string& arguments) {
  CLI::App app("", "paint");
  int size = 0;
  app.add_option("--canvas-size", size)->required();
  app.add_flag("-v,--verbose");
  CLI::App* draw = app.add_subcommand("draw")->fallthrough();
  draw->add_option("--brush", size);
  draw->add_subcommand("circle");
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return RefusalText(app, error);
  }
  return "";
}

TEST(DidYouMeanTest, RefusalsOfCommandLinesSayWhatWasMeant) {
  const std::string unexpected = "The following argument was not expected: ";
  EXPECT_EQ(Refusal("--canvas-size 3 --verbos"),
            unexpected + "--verbos; did you mean '--verbose'?");
  EXPECT_EQ(Refusal("--canvas-size 3 --verbos=1"),
            unexpected + "--verbos=1; did you mean '--verbose'?");
  EXPECT_EQ(Refusal("--canvas-size 3 draw --bursh"),
            unexpected + "--bursh; did you mean '--brush'?");
  EXPECT_EQ(Refusal("--canvas-size 3 draw --verbos"),
            unexpected + "--verbos; did you mean '--verbose'?");
  EXPECT_EQ(Refusal("--canvas_size 3"),
            "--canvas-size is required; there is no option '--canvas_size'; did you mean "
            "'--canvas-size'?");
  EXPECT_EQ(Refusal("--canvas-size 3 darw"), "there is no command 'darw'; did you mean 'draw'?");
  EXPECT_EQ(Refusal("--canvas-size 3 draw cirle"),
            "there is no command 'cirle'; did you mean 'circle'?");
  EXPECT_EQ(Refusal("--canvas-size 3 --zebra"), unexpected + "--zebra");
  EXPECT_EQ(Refusal("--canvas-size x").find("; "), std::string::npos);
}

}  // namespace
}  // namespace fovea
