// What a compiler says of its version: asked for once, remembered as long as its files are the
// same.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cached.hpp"
#include "files/temp_dir.hpp"
#include "jit/toolchain/toolchain.hpp"

namespace heddle::jit::testing {
namespace {

namespace fs = std::filesystem;

/// The number of lines in a file that a tool adds to.
int lines_of(const fs::path& path) {
  const std::string text = fs::exists(path) ? read_text(path) : "";
  return static_cast<int>(std::ranges::count(text, '\n'));
}

TEST(CompilerVersionTest, IsAskedForOnce) {
  // J11: also where the cache cannot be written; and again when the compiler's file is another
  CacheScratch here;
  const fs::path asked = here.scratch.path() / "asked";
  const std::string ask = "[ \"$1\" = --version ] && echo >> " + asked.string();
  here.options.cc = here.scratch.tool("cc2", ask + "\nexec cc \"$@\"").string();
  here.options.cache_dir = "/proc/self/cache";
  const auto compiler = here.open();
  for (int value = 0; value < 3; ++value)
    EXPECT_EQ(run_adder(*compiler->compile(adder_unit(value))), 1 + value);
  EXPECT_EQ(lines_of(asked), 1);
  here.scratch.tool("cc2", ask + "\nexec cc  \"$@\"");
  EXPECT_EQ(run_adder(*compiler->compile(adder_unit(9))), 10);
  EXPECT_EQ(lines_of(asked), 2);
}

TEST(CompilerVersionTest, IsThatOfItsFiles) {
  // J11: remembered in memory and on disk, whatever blanks are in the library's path
  CacheScratch here;
  const fs::path library = here.scratch.path() / "a library";
  write_file(library, "one");
  int asked = 0;
  const auto ask = [&] {
    ++asked;
    return ToldVersion{"it 1.0", library};
  };
  const auto find = [&](VersionMemory& memory) {
    KernelCache cache({here.options.cache_dir});
    return memory.find(cache, "stamps", ask).value_or("nothing");
  };
  VersionMemory memory("it");
  const std::string first = find(memory);
  EXPECT_EQ(first, "it 1.0\n" + file_stamp(library));
  EXPECT_EQ(find(memory), first);
  EXPECT_EQ(asked, 1);
  VersionMemory other("it");
  EXPECT_EQ(find(other), first) << "on disk it is found";
  EXPECT_EQ(asked, 1);
  write_file(library, "another");
  EXPECT_NE(find(memory), first);
  EXPECT_EQ(asked, 2);
  EXPECT_NE(find(other), first);
  EXPECT_EQ(asked, 2) << "the new note is on disk";
  fs::remove_all(here.options.cache_dir);
  EXPECT_NE(find(memory), first);
  EXPECT_EQ(asked, 2) << "memory needs no disk";
}

TEST(CompilerVersionTest, StampsFollowLinks) {
  // J11: a link that leads elsewhere, a file of the same size in its place, and no file are seen
  const CacheScratch here;
  const fs::path one = here.scratch.path() / "one", two = here.scratch.path() / "two",
                 link = here.scratch.path() / "link";
  write_file(one, "1");
  write_file(two, "2");
  fs::last_write_time(two, fs::last_write_time(one));
  fs::create_symlink(one, link);
  const std::string first = file_stamp(link);
  EXPECT_EQ(first, file_stamp(one));
  EXPECT_EQ(first, file_stamp(link));
  fs::remove(link);
  fs::create_symlink(two, link);
  EXPECT_EQ(file_stamp(link), file_stamp(two));
  EXPECT_NE(file_stamp(link), first);
  fs::remove(two);
  EXPECT_EQ(file_stamp(link), link.string() + " missing");
}

}  // namespace
}  // namespace heddle::jit::testing
