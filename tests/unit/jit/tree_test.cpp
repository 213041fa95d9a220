// Trees: flattened, made again, mapped; what is said of those of different structure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "heddle/status.hpp"
#include "heddle/tree.hpp"

namespace heddle::tree_test {

/// A leaf, as handles are: nothing makes an empty one.
class Weight {
 public:
  explicit Weight(int number) : number_(number) {}
  [[nodiscard]] int number() const { return number_; }
  friend bool operator==(const Weight&, const Weight&) = default;

 private:
  int number_;
};

struct Dense {
  Weight weight, bias;
  friend bool operator==(const Dense&, const Dense&) = default;
};
HEDDLE_TREE(Dense, weight, bias)

struct Relu {
  friend bool operator==(const Relu&, const Relu&) = default;
};
HEDDLE_TREE(Relu)

/// With a field that is no part of the tree.
struct Scaled {
  float factor = 3;
  std::vector<Weight> rest{};
  std::optional<Weight> first{};
  friend bool operator==(const Scaled&, const Scaled&) = default;
};
HEDDLE_TREE(Scaled, first, rest)

template <class T>
struct Linear {
  T weight;
  std::optional<T> bias;
  friend bool operator==(const Linear&, const Linear&) = default;
};
template <class T>
HEDDLE_TREE(Linear<T>, weight, bias)

template <class T>
struct Net {
  std::vector<Linear<T>> layers;
  std::array<T, 2> ends;
  friend bool operator==(const Net&, const Net&) = default;
};
template <class T>
HEDDLE_TREE(Net<T>, layers, ends)

/// Holds trees of its own type.
struct Branch {
  Weight value;
  std::vector<Branch> branches{};
  friend bool operator==(const Branch&, const Branch&) = default;
};
HEDDLE_TREE(Branch, value, branches)

struct Derived : Dense {
  int more = 0;
};
struct Swapped {
  Weight weight, bias;
};
HEDDLE_TREE(Swapped, bias, weight)
struct Mixed {
  Weight weight;
  Dense dense;
  std::array<Weight, 1> rest;
  Weight bias;
};
HEDDLE_TREE(Mixed, weight, dense, rest, bias)
struct MixedSwapped {
  Weight weight;
  Relu relu;
  Weight bias;
};
HEDDLE_TREE(MixedSwapped, bias, relu, weight)
struct Partial {
  Weight weight, bias;
};
HEDDLE_TREE(Partial, weight)
struct Defaulted {
  Weight weight;
  Weight bias = Weight(0);
};
HEDDLE_TREE(Defaulted, weight)
struct Wide {
  int f00 = 0, f01 = 0, f02 = 0, f03 = 0, f04 = 0, f05 = 0, f06 = 0, f07 = 0, f08 = 0, f09 = 0,
      f10 = 0, f11 = 0, f12 = 0, f13 = 0, f14 = 0, f15 = 0, f16 = 0, f17 = 0, f18 = 0;
};
HEDDLE_TREE(Wide, f00, f01, f02, f03, f04, f05, f06, f07, f08, f09, f10, f11, f12, f13, f14, f15,
            f16, f17, f18)

static_assert(TreeOf<Weight, Weight> && TreeOf<const Dense&, Weight> && TreeOf<Branch, Weight>);
static_assert(TreeOf<std::pair<Relu, std::map<std::string, Dense>>, Weight>);
static_assert(TreeOf<std::vector<int>, std::vector<int>> && !TreeOf<std::vector<bool>, bool>);
static_assert(!TreeOf<Weight, int> && !TreeOf<std::tuple<Dense, int>, Weight>);
static_assert(!TreeOf<std::map<std::string, Weight, std::greater<>>, Weight>);
static_assert(!TreeOf<Derived, Weight> && !TreeOf<std::unique_ptr<Weight>, Weight>);
static_assert(trees::TreeAccess<Dense>::lists_all<Weight, Weight>());
static_assert(trees::TreeAccess<Mixed>::lists_all<Weight, Dense, std::array<Weight, 1>, Weight>());
static_assert(!trees::TreeAccess<MixedSwapped>::lists_all<Weight, Relu, Weight>());
static_assert(!trees::TreeAccess<Swapped>::lists_all<Weight, Weight>());
static_assert(!trees::TreeAccess<Partial>::lists_all<Weight>());
static_assert(!trees::TreeAccess<Defaulted>::lists_all<Weight>());

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using All = std::tuple<std::vector<Dense>, std::pair<Weight, Relu>, std::array<Weight, 2>,
                       std::map<std::string, std::optional<Dense>>, std::tuple<std::tuple<Weight>>,
                       std::array<Weight, 0>, Scaled>;

All all_kinds() {
  return {{{Weight(0), Weight(1)}, {Weight(2), Weight(3)}},
          {Weight(4), {}},
          {Weight(5), Weight(6)},
          {{"b", Dense{Weight(7), Weight(8)}}, {"a/", std::nullopt}},
          {Weight(9)},
          {},
          {.rest = {Weight(11)}, .first = Weight(10)}};
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return std::string(name(e.code())) + "|" + std::string(e.status().message());
  }
  return "nothing thrown";
}

std::vector<std::string> paths_of(const TreeDef& def) {
  std::vector<std::string> paths;
  for (std::size_t k = 0; k < def.num_leaves(); ++k) paths.push_back(def.path(k));
  return paths;
}

template <class T>
TreeDef weights_def(const T& tree) {
  return flatten<Weight>(tree).def;
}

// F1: leaves come in the order of their trees, whatever these are, and make them again
TEST(TreeTest, IsMadeOfItsLeavesAgain) {
  const All tree = all_kinds();
  const auto [def, leaves] = flatten<Weight>(tree);
  ASSERT_EQ(leaves.size(), 12U);
  for (int k = 0; k < 12; ++k) EXPECT_EQ(leaves[static_cast<std::size_t>(k)].number(), k);
  EXPECT_EQ(unflatten<All>(def, leaves), tree);
  EXPECT_EQ(unflatten<Weight>(TreeDef(), std::vector{Weight(7)}), Weight(7));
  const Branch branch{Weight(0), {{Weight(1), {{Weight(2)}, {Weight(3)}}}, {Weight(4)}}};
  const auto branches = flatten<Weight>(branch);
  EXPECT_EQ(unflatten<Branch>(branches.def, branches.leaves), branch);
  const Mixed mixed{Weight(0), {Weight(1), Weight(2)}, {Weight(3)}, Weight(4)};
  const auto flat = flatten<Weight>(mixed);
  EXPECT_EQ(flatten<Weight>(unflatten<Mixed>(flat.def, flat.leaves)).leaves, flat.leaves);
  // A container may be a leaf.
  const std::vector<std::vector<int>> rows{{1, 2}, {}};
  EXPECT_EQ(flatten<std::vector<int>>(rows).leaves, rows);
  const auto wide = flatten<int>(Wide{.f18 = 9});
  EXPECT_EQ(wide.def.path(18), "f18");
  EXPECT_EQ(wide.leaves.at(18), 9);
}

// F1: fields that HEDDLE_TREE does not list are those of a T{}
TEST(TreeTest, OtherFieldsAreAsByDefault) {
  const Scaled tree{.factor = 9, .rest = {Weight(1)}};
  const auto flat = flatten<Weight>(tree);
  EXPECT_EQ(unflatten<Scaled>(flat.def, flat.leaves), (Scaled{.factor = 3, .rest = {Weight(1)}}));
}

// F1: the text says all of the structure
TEST(TreeTest, TextIsParsed) {
  const TreeDef def = weights_def(all_kinds());
  EXPECT_EQ(def.to_string(),
            "([{weight: *, bias: *}, {weight: *, bias: *}], (*, {}), [*, *], "
            "{\"a/\": none, \"b\": some {weight: *, bias: *}}, ((*)), [], "
            "{first: some *, rest: [*]})");
  for (const char* text : {"*", "[]", "()", "{}", "{:}", "none", "some some none", "[*, [*]]",
                           "{\"\": *, \"\\x00\\x1f\\x7f\\\"\\\\\xc3\": *}", "{none: *, $_9: *}"}) {
    EXPECT_EQ(TreeDef::parse(text).to_string(), text);
  }
  EXPECT_EQ(TreeDef::parse(def.to_string()), def);
  EXPECT_FALSE(first_difference(TreeDef::parse(def.to_string()), def));
  EXPECT_EQ(weights_def(Dense{Weight(1), Weight(2)}), TreeDef::parse("{weight: *, bias: *}"));
  EXPECT_EQ(TreeDef::parse(" [ * ,\n{a:*} ] ").to_string(), "[*, {a: *}]");
  const TreeDef keys = weights_def(std::map<std::string, Weight>{
      {std::string("\0\n\"\\", 4), Weight(1)}, {"\xff", Weight(2)}, {"", Weight(3)}});
  EXPECT_EQ(TreeDef::parse(keys.to_string()), keys);
}

// F1: each leaf has a path, and no other has the same
TEST(TreeTest, LeavesHavePaths) {
  EXPECT_THAT(paths_of(weights_def(all_kinds())),
              ElementsAre("0/0/weight", "0/0/bias", "0/1/weight", "0/1/bias", "1/0", "2/0", "2/1",
                          "3/b/weight", "3/b/bias", "4/0/0", "6/first", "6/rest/0"));
  EXPECT_THAT(paths_of(TreeDef()), ElementsAre(""));
  using Keys = std::map<std::string, Weight>;
  const std::map<std::string, Keys> keys{
      {"a", {{"b", Weight(1)}}},
      {"a/b", {{"..", Weight(2)}, {"x.y-z_0", Weight(3)}}},
      {"", {{"\"", Weight(4)}, {"\n", Weight(5)}, {"a b", Weight(6)}}},
      {"\"a\"", {{"é", Weight(7)}}}};
  EXPECT_THAT(paths_of(weights_def(keys)),
              ElementsAre(R"(""/"\x0a")", R"(""/"\"")", R"(""/"a b")", R"("\"a\""/é)", "a/b",
                          R"("a/b"/"..")", R"("a/b"/x.y-z_0)"));
  EXPECT_THAT(message_of([] { static_cast<void>(TreeDef().path(1)); }),
              testing::StartsWith("invalid_argument|leaf 1 of a tree"));
}

// F1: visits see the leaves themselves, with the paths that the structure gives them
TEST(TreeTest, VisitsSeeLeavesAndPaths) {
  All tree = all_kinds();
  std::vector<std::string> paths;
  visit_leaves<Weight>(tree, [&](const std::string& path, Weight& leaf) {
    paths.push_back(path);
    leaf = Weight(leaf.number() + 100);
  });
  const auto [def, leaves] = flatten<Weight>(tree);
  EXPECT_EQ(paths, paths_of(def));
  EXPECT_EQ(leaves.at(0).number(), 100);
  int sum = 0;
  visit_leaves<Weight>(std::as_const(tree),
                       [&](const std::string&, const Weight& leaf) { sum += leaf.number(); });
  EXPECT_EQ(sum, 66 + 1200);
}

template <class T>
std::string unflatten_fails(const char* text) {
  const TreeDef def = TreeDef::parse(text);
  const std::vector<Weight> leaves(def.num_leaves(), Weight(1));
  return message_of([&] { static_cast<void>(unflatten<T>(def, leaves)); });
}

// F2: a structure that is not the type's, and another number of leaves, are refused by path
TEST(TreeTest, StructuresOfOtherTypesAreRefused) {
  using Layers = std::vector<std::optional<Dense>>;
  EXPECT_EQ(unflatten_fails<Layers>("[none, some {weight: *, bias: [*]}]"),
            "invalid_argument|unflatten: at 1/bias: a list of 1 element, expected a leaf");
  EXPECT_EQ(unflatten_fails<Layers>("[*]"),
            "invalid_argument|unflatten: at 0: a leaf, expected an optional");
  EXPECT_EQ(unflatten_fails<Layers>("[some {bias: *, weight: *}]"),
            "invalid_argument|unflatten: at 0: field bias, expected weight");
  EXPECT_EQ(unflatten_fails<Layers>("(*)"),
            "invalid_argument|unflatten: at the root: a tuple of 1 element, expected a list");
  EXPECT_EQ((unflatten_fails<std::array<Weight, 2>>("[*, *, *]")),
            "invalid_argument|unflatten: at the root: 3 elements, expected 2");
  EXPECT_EQ((unflatten_fails<std::pair<Weight, std::map<std::string, Weight>>>("(*, {})")),
            "invalid_argument|unflatten: at 1: a struct of 0 fields, expected a map");
  const TreeDef def = TreeDef::parse("[{weight: *, bias: *}]");
  const auto of = [&](std::size_t count) {
    return message_of([&] {
      static_cast<void>(unflatten<std::vector<Dense>>(def, std::vector(count, Weight(1))));
    });
  };
  EXPECT_EQ(of(1), "invalid_argument|unflatten: 1 leaves, expected 2: none at 0/bias");
  EXPECT_EQ(of(3), "invalid_argument|unflatten: 3 leaves, expected 2");
}

// F1: a tree of other leaves has the same structure
TEST(TreeTest, MapsToOtherLeaves) {
  const auto text_of = [](const Weight& leaf) { return std::to_string(leaf.number()); };
  const Net<Weight> net{{{Weight(0), Weight(1)}, {Weight(2), std::nullopt}},
                        {Weight(3), Weight(4)}};
  const Net<std::string> texts = tree_map<Weight>(net, text_of);
  EXPECT_EQ(texts, (Net<std::string>{{{"0", "1"}, {"2", std::nullopt}}, {"3", "4"}}));
  using Tree = std::tuple<std::pair<Weight, Relu>, std::map<std::string, std::vector<Weight>>>;
  const Tree tree{{Weight(1), {}}, {{"a", {Weight(2), Weight(3)}}}};
  const std::tuple<std::pair<std::string, Relu>, std::map<std::string, std::vector<std::string>>>
      mapped = tree_map<Weight>(tree, text_of);
  EXPECT_EQ(std::get<1>(mapped).at("a").at(1), "3");
  EXPECT_EQ(flatten<std::string>(mapped).def, weights_def(tree));
  // The same leaves: all else stays.
  const Scaled scaled{.factor = 9, .rest = {Weight(1)}};
  const Scaled more =
      tree_map<Weight>(scaled, [](const Weight& leaf) { return Weight(leaf.number() + 1); });
  EXPECT_EQ(more, (Scaled{.factor = 9, .rest = {Weight(2)}}));
}

// F1: several trees of one structure are one tree of what a function makes of their leaves
TEST(TreeTest, MapsSeveralTrees) {
  const std::vector<Dense> weights{{Weight(1), Weight(2)}, {Weight(3), Weight(4)}};
  std::vector<Dense> steps = weights;
  const auto plus = [](const Weight& a, const Weight& b) {
    return Weight(a.number() + b.number());
  };
  const std::vector<Dense> twice = tree_map<Weight>(weights, steps, plus);
  EXPECT_EQ(twice, (std::vector<Dense>{{Weight(2), Weight(4)}, {Weight(6), Weight(8)}}));
  const auto texts =
      tree_map<Weight>(weights[0].weight, steps[0].weight, steps[1].weight,
                       [](const Weight& a, const Weight& b, const Weight& c) {
                         return std::to_string(100 * a.number() + 10 * b.number() + c.number());
                       });
  EXPECT_EQ(texts, "113");
  steps.pop_back();
  EXPECT_EQ(message_of([&] { static_cast<void>(tree_map<Weight>(weights, steps, plus)); }),
            "invalid_argument|tree 2 of tree_map(): at the root: 1 element, expected 2");
}

// F1: neither leaves nor layers beside each other cost more where there are more
TEST(TreeTest, HundredThousandLayers) {
  const std::vector<Dense> layers(100'000, Dense{Weight(1), Weight(2)});
  const auto [def, leaves] = flatten<Weight>(layers);
  EXPECT_EQ(leaves.size(), 200'000U);
  EXPECT_EQ(def.path(199'999), "99999/bias");
  EXPECT_EQ(TreeDef::parse(def.to_string()), def);
  EXPECT_EQ(unflatten<std::vector<Dense>>(def, leaves), layers);
  std::size_t k = 0;
  visit_leaves<Weight>(
      layers, [&](const std::string& path, const Weight&) { ASSERT_EQ(path, def.path(k++)); });
  EXPECT_EQ(k, 200'000U);
  // Equal ones beside each other share their structure.
  EXPECT_EQ(def.child(0).name(0).data(), def.child(99'999).name(0).data());
}

}  // namespace
}  // namespace heddle::tree_test
