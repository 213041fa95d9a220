// Mistakes that compilers find: each marked line is one, and says what they have to say of it.
#include <heddle/heddle.hpp>

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

using namespace heddle;

struct Plain {
  Extent weight;
};
struct Swapped {
  Extent weight, bias;
};
HEDDLE_TREE(Swapped, bias, weight)
struct Dense : Swapped {
  Extent more;
};
HEDDLE_TREE(Plain, wieght)  // refused: wieght

void mistakes(float* values, const double* constant, const std::string& text, void (*function)()) {
  const Tensor a("a", f32, {4}), b("b", f32, {4});
  const Index i;
  Program p("p");
  p << (a(i) = b(i) * values);        // refused: a pointer is no value of an element
  p << (a(i) = constant);             // refused: a pointer is no value of an element
  p << (a(i) = b(i) + "3");           // refused: a pointer is no value of an element
  p << (a(i) = max(b(i), function));  // refused: a pointer is no value of an element
  p << (a(i) += text);                // refused: no match|no viable|no matching|invalid operands
  p << (a(i) = b(i) * nullptr);       // refused: nullptr
  p << (a(i) = b(i) * 'x');           // refused: no match|no viable|no matching|invalid operands
  p << (a(values) = b(i));            // refused: no match|no viable|no matching|invalid operands
  p << (a(true) = b(i));              // refused: no match|no viable|no matching|invalid operands
  a(i) = b(i);                        // refused: a statement does nothing until it is appended
  a(i) += b(i);                       // refused: a statement does nothing until it is appended
  a(i).max_with(b(i));                // refused: a statement does nothing until it is appended
  sum(b(i));                          // refused: nodiscard
}

using Unordered = std::unordered_map<std::string, Extent>;
using Numbers = std::tuple<Extent, std::vector<float>>;
void trees_of(const Swapped& swapped, const Dense& dense, const Unordered& map, const Numbers& n) {
  const std::vector<double> values;
  (void)flatten<Extent>(values);             // refused: CheckedTree<double[,]
  (void)flatten<Extent>(n);                  // refused: CheckedTree<float[,]
  (void)flatten<Extent>(map);                // refused: CheckedTree<std::unordered_map[<]
  (void)flatten<Extent>(dense);              // refused: CheckedTree<Dense[,]
  (void)flatten<bool>(std::vector<bool>());  // refused: CheckedTree<std::vector[<]
  (void)unflatten<Swapped>(TreeDef(), std::vector{dense.more});  // refused: (<|T = )Swapped[>,;]
  (void)tree_map<Extent>(swapped, [](Extent) { return 1.5; });  // refused: a struct has leaves o[f]
}

struct Typed {
  ArrayType weight;
};
HEDDLE_TREE(Typed, weight)
struct Pair {
  Node a, b;
};
HEDDLE_TREE(Pair, a, b)
void traces_of(const ArrayType& type, const Typed& typed, const Unordered& map, const Node& node) {
  const auto fine = [](const Node& x) { return x; };
  (void)trace("f", fine, map);                           // refused: CheckedTree<std::unordered_map
  (void)trace("f", fine, node);                          // refused: CheckedTree<(heddle::)?Node
  (void)trace([](const Typed& t) { return t; }, typed);  // refused: a struct has ArrayTypes
  (void)trace(fine, type, type);                         // refused: takes an argument for each o[f]
  (void)trace("f", [](Node& x) { return x; }, type);     // refused: takes an argument for each o[f]
  (void)trace(fine, std::vector{type});                  // refused: takes an argument for each o[f]
  (void)trace("f", 3, type);                             // refused: takes an argument for each o[f]
  (void)trace("f", [](Node) {}, type);                   // refused: this returns nothin[g]
  (void)trace("f", [](Node) { return 1.5; }, type);      // refused: CheckedTree<double[,]
  (void)trace("f", [](Node x) { return std::pair(x, 3); }, type);  // refused: CheckedTree<int[,]
  const auto pair = trace("f", [](Node x) { return Pair{x, x}; }, type);
  (void)pair.unflatten_results(std::vector{1, 2});  // refused: returns a struct that has node[s]
}
void executors_of(const Device& device, const Array& x, const ArrayType& type, const Node& node) {
  const auto fine = [](Node each) { return each; };
  const Executor inc(device, fine);
  (void)Executor(device, 3);  // refused: an executor is made of a functio[n]
  (void)Executor(device,
                 [](float each) { return each; });  // refused: takes Nodes and trees of Node[s]
  (void)Executor(device, [](Node& each) { return each; });  // refused: not by Node&
  (void)Executor(device,
                 [k = 0](Node each) mutable { return each + k++; });  // refused: not be mutabl[e]
  inc(x, x);  // refused: (take these argument[s]|evaluated to fals[e])
  inc(node);  // refused: (is called with Array[s]|checked_cal[l])
  inc(type);  // refused: (types have no value[s]|have_value[s])
}
void parts_of(const sched::TaskDevice& device) {
  device.submit_parallel("rows", 3,  // refused: called as const: a mutabl[e]
                         [k = 0](std::size_t, std::size_t) mutable { ++k; });
  device.submit_parallel("rows", 3, [](std::size_t) {});  // refused: no match|no matching
  device.submit_parallel("rows", 3,                       // refused: returns nothing or a heddl[e]
                         [](std::size_t, std::size_t) { return true; });
}
