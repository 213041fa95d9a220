// `heddle cache` and what `heddle info` says of the cache, as people and scripts meet them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/temp_directory.hpp"
#include "tests/unit/tools/run_program.hpp"

namespace heddle::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_heddle;

/// A cache directory of the test's own, filled by one run of the demo.
class CacheCommandTest : public ::testing::Test {
 protected:
  [[nodiscard]] Outcome heddle(const std::vector<std::string>& arguments) const {
    return run_heddle(arguments,
                      {{"HEDDLE_CACHE", "on"}, {"HEDDLE_CACHE_DIR", (path_ / "cache").string()}});
  }
  [[nodiscard]] nlohmann::json json(const std::vector<std::string>& arguments,
                                    int exit_code = 0) const {
    const Outcome outcome = heddle(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  }
  void fill() const {
    const Outcome outcome =
        heddle({"demo", "digits", "--epochs", "1", "--quiet", "--devices", "1", "--backend", "cc"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }

  const TempDirectory directory_;
  const fs::path path_ = directory_.path();
};

// J11: listed, counted, checked, pruned, cleared
TEST_F(CacheCommandTest, TendsTheCache) {
  EXPECT_TRUE(json({"cache", "list", "--json"})["entries"].empty()) << "none yet is no error";
  fill();
  const auto listed = json({"cache", "list", "--json"});
  ASSERT_FALSE(listed["entries"].empty());
  EXPECT_GT(listed["bytes"].get<int>(), 0);
  EXPECT_THAT(heddle({"cache", "list"}).out, HasSubstr((path_ / "cache").string()));
  const auto first = json({"info", "--json"})["cache"];
  EXPECT_EQ(first["directory"], (path_ / "cache").string());
  EXPECT_EQ(first["entries"].get<std::size_t>(), listed["entries"].size());
  EXPECT_EQ(first["counters"]["compiled"], first["counters"]["stored"]);
  fill();
  const auto second = json({"info", "--json"})["cache"]["counters"];
  EXPECT_EQ(second["compiled"], first["counters"]["compiled"]);
  EXPECT_GT(second["disk_hits"].get<int>(), 0);
  EXPECT_THAT(heddle({"info"}).out, HasSubstr("disk_hits"));
  EXPECT_EQ(json({"cache", "prune", "--bytes", "0", "--json"})["removed"].get<std::size_t>(),
            listed["entries"].size());
  fill();
  std::ofstream(path_ / "cache" / "tuned-0") << "what was tuned";
  const auto cleared = json({"cache", "clear", "--json"});
  EXPECT_GT(cleared["bytes"].get<int>(), 0);
  EXPECT_EQ(cleared["tuned"], 1);
  EXPECT_FALSE(fs::exists(path_ / "cache" / "tuned-0"));
  EXPECT_TRUE(json({"cache", "list", "--json"})["entries"].empty());
  EXPECT_EQ(json({"info", "--json"})["cache"]["counters"]["compiled"].get<int>(), 0);
}

// J11: what is damaged is said, removed, and told by the exit code
TEST_F(CacheCommandTest, VerifyFindsDamage) {
  fill();
  EXPECT_TRUE(json({"cache", "verify", "--json"})["removed"].empty());
  const std::string key = json({"cache", "list", "--json"})["entries"][0]["key"];
  fs::resize_file(path_ / "cache" / key, 100);
  EXPECT_THAT(heddle({"cache", "list"}).out, HasSubstr("damaged"));
  const auto verified = json({"cache", "verify", "--json"}, 1);
  ASSERT_EQ(verified["removed"].size(), 1u);
  EXPECT_EQ(verified["removed"][0]["key"], key);
  EXPECT_FALSE(fs::exists(path_ / "cache" / key));
  EXPECT_EQ(heddle({"cache", "verify"}).exit_code, 0);
}

// J11: clearing that leaves something says what, and is no success
TEST_F(CacheCommandTest, SaysWhatItCouldNotRemove) {
  const std::string key(64, 'a');
  fs::create_directories(path_ / "cache" / key / "inside");
  chmod((path_ / "cache").c_str(), 0700);
  const Outcome outcome = heddle({"cache", "clear"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("could not be removed"));
  EXPECT_THAT(outcome.out, HasSubstr(key));
  const auto cleared = json({"cache", "clear", "--json"}, 1);
  EXPECT_EQ(cleared["kept"], 1);
  EXPECT_THAT(cleared["problem"].get<std::string>(), HasSubstr(key));
  fs::remove_all(path_ / "cache" / key);
  EXPECT_EQ(heddle({"cache", "clear"}).exit_code, 0);
}

// J11: a directory that is not to be trusted is refused by name; there may be none at all
TEST_F(CacheCommandTest, RefusesWhatIsNotToBeTrusted) {
  fs::create_directory(path_ / "cache");
  chmod((path_ / "cache").c_str(), 0777);
  const Outcome open = heddle({"cache", "list"});
  EXPECT_EQ(open.exit_code, 1);
  EXPECT_THAT(open.err, HasSubstr("others may write it"));
  EXPECT_THAT(heddle({"info"}).out, HasSubstr("others may write it"));
  const Outcome off = run_heddle({"cache", "clear"}, {{"HEDDLE_CACHE", "off"}});
  EXPECT_EQ(off.exit_code, 1);
  EXPECT_THAT(off.err, HasSubstr("HEDDLE_CACHE"));
  EXPECT_EQ(heddle({"cache"}).exit_code, 2);
  EXPECT_EQ(heddle({"cache", "eat"}).exit_code, 2);
  const Outcome odd = run_heddle({"info"}, {{"HEDDLE_CACHE", "perhaps"}});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_THAT(odd.err, HasSubstr("on or off"));
}

}  // namespace
}  // namespace heddle::tools
