// The structure of trees: made, printed, parsed, compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <unordered_set>

#include "heddle/status.hpp"
#include "heddle/tree.hpp"

namespace heddle {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string structure_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return std::string(name(e.code())) + "|" + std::string(e.status().message());
  }
  return "nothing thrown";
}

// F1: what is no text of a tree is refused: where, what is expected, what is there
TEST(TreeDefTest, MalformedTextIsRefused) {
  EXPECT_EQ(
      structure_error([] { static_cast<void>(TreeDef::parse("[*, {a: ?}]")); }),
      "invalid_argument|tree text at byte 8: expected a tree: *, [...], (...), {...}, none or "
      "some, found '?}]'");
  for (const char* text : {"",
                           "[*",
                           "[*,]",
                           "[* *]",
                           "[,*]",
                           "(*]",
                           "{a *}",
                           "{a: *, \"b\": *}",
                           "{\"a\": *, b: *}",
                           "{\"a: *}",
                           "{\"\\n\": *}",
                           "{\"\\xAA\": *}",
                           "{\"\\x0",
                           "{\"b\": *, \"a\": *}",
                           "{\"a\": *, \"a\": *}",
                           "{a: *, b: *, a: *}",
                           "{9: *}",
                           "{: *}",
                           "{:",
                           "* *",
                           "some",
                           "nonesome",
                           "nonex"}) {
    EXPECT_THAT(structure_error([&] { static_cast<void>(TreeDef::parse(text)); }),
                StartsWith("invalid_argument|"))
        << text;
  }
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(TreeDef::parse(nested(1000)).to_string(), nested(1000));
  EXPECT_THAT(structure_error([&] { static_cast<void>(TreeDef::parse(nested(1001))); }),
              HasSubstr("1000"));
  EXPECT_THAT(
      structure_error([&] { static_cast<void>(TreeDef::parse(std::string(1'000'000, '['))); }),
      HasSubstr("1000"));
}

// F1: structures are made by hand too; what no tree has is refused
TEST(TreeDefTest, ImpossibleStructuresAreRefused) {
  const TreeDef leaf;
  EXPECT_EQ(TreeDef(TreeKind::fields, {leaf, leaf}, {"weight", "bias"}),
            TreeDef::parse("{weight: *, bias: *}"));
  const auto refused = [](TreeKind kind, std::vector<TreeDef> children,
                          std::vector<std::string> names) {
    return structure_error([&] { TreeDef(kind, std::move(children), std::move(names)); });
  };
  const auto starts = StartsWith("invalid_argument|");
  EXPECT_THAT(refused(TreeKind::leaf, {leaf}, {}), starts);
  EXPECT_THAT(refused(TreeKind::none, {leaf}, {}), starts);
  EXPECT_THAT(refused(TreeKind::some, {}, {}), starts);
  EXPECT_THAT(refused(TreeKind::some, {leaf, leaf}, {}), starts);
  EXPECT_THAT(refused(TreeKind::list, {leaf}, {"a"}), starts);
  EXPECT_THAT(refused(TreeKind::map, {leaf}, {}), starts);
  EXPECT_THAT(refused(static_cast<TreeKind>(7), {}, {}), starts);
  EXPECT_THAT(refused(TreeKind::fields, {leaf}, {"a b"}), HasSubstr("\"a b\""));
  EXPECT_THAT(refused(TreeKind::map, {leaf, leaf}, {"b", "a"}), HasSubstr("\"a\" behind \"b\""));
  EXPECT_THAT(structure_error([&] { static_cast<void>(leaf.child(0)); }), HasSubstr("a leaf"));
  TreeDef deep;
  for (int k = 0; k < 999; ++k) deep = TreeDef(TreeKind::some, {deep});
  EXPECT_THAT(refused(TreeKind::some, {TreeDef(TreeKind::some, {deep})}, {}), HasSubstr("1000"));
}

// F1: equal structures are equal and hash equal, all others are neither
TEST(TreeDefTest, StructuresAreValues) {
  EXPECT_EQ(flatten<int>(std::vector{1}).def, flatten<int>(std::array{2}).def);
  std::unordered_set<TreeDef> seen;
  std::unordered_set<std::size_t> hashes;
  const char* texts[] = {"*",
                         "none",
                         "some *",
                         "some none",
                         "some some *",
                         "[]",
                         "()",
                         "{}",
                         "{:}",
                         "[*]",
                         "(*)",
                         "{a: *}",
                         "{b: *}",
                         "{\"a\": *}",
                         "[*, *]",
                         "[[*, *]]",
                         "[[*], *]",
                         "[*, [*]]",
                         "{a: *, b: *}",
                         "{ab: *, c: *}",
                         "{a: *, bc: *}"};
  for (const char* text : texts) {
    EXPECT_TRUE(seen.insert(TreeDef::parse(text)).second) << text;
    EXPECT_FALSE(seen.insert(TreeDef::parse(text)).second) << text;
    hashes.insert(TreeDef::parse(text).hash());
  }
  EXPECT_EQ(hashes.size(), std::size(texts));
}

// F2: of trees that differ, the outermost part that does is named, and how it does
TEST(TreeDefTest, FirstDifferenceIsNamed) {
  const std::vector<std::array<const char*, 3>> cases{
      {"*", "[*]", "at the root: a leaf, expected a list of 1 element"},
      {"{layers: [*, (*, *, *)]}", "{layers: [*, (*, *, *, *)]}",
       "at layers/1: 3 elements, expected 4"},
      {"{layers: [[*], *]}", "{layers: [*]}", "at layers: 2 elements, expected 1"},
      {"{a: *}", "{\"a\": *}", "at the root: a struct of 1 field, expected a map of 1 key"},
      {"({a: *, b: *})", "({a: *, c: *})", "at 0: field b, expected c"},
      {"({a: *})", "({a: *, c: *})", "at 0: field c is missing"},
      {"({a: *, b: *})", "({a: *})", "at 0: field b is not expected"},
      {"[{\"a\": *, \"b\": *}]", "[{\"b\": *}]", "at 0: key \"a\" is not expected"},
      {"[{\"b\": *}]", "[{\"a\": *, \"b\": *}]", "at 0: key \"a\" is missing"},
      {"[{\"b\": *, \"c\": *}]", "[{\"b\": *}]", "at 0: key \"c\" is not expected"},
      {"{\"a/b\": none}", "{\"a/b\": some *}",
       "at \"a/b\": an empty optional, expected an optional with a content"},
      {"(some [*])", "(some [])", "at 0: 1 element, expected 0"}};
  for (const auto& [found, expected, text] : cases) {
    const auto difference = first_difference(TreeDef::parse(found), TreeDef::parse(expected));
    ASSERT_TRUE(difference) << found;
    EXPECT_EQ(difference->to_string(), text);
    EXPECT_EQ(structure_error([&, a = found, b = expected] {
                require_same(TreeDef::parse(a), TreeDef::parse(b), "gradient");
              }),
              std::string("invalid_argument|gradient: ") + text);
  }
  EXPECT_FALSE(first_difference(TreeDef::parse("[(*, *)]"), TreeDef::parse("[(*, *)]")));
  EXPECT_NO_THROW(require_same(TreeDef(), TreeDef(), "gradient"));
}

}  // namespace
}  // namespace heddle
