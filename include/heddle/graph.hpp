// Graphs: functions of arrays, as a value. One thread builds a graph, from parameters by operations
// on nodes; once it is finished, any thread may use it. Graphs lower to Programs (F3).
//
// Nodes are immutable. The same operation on the same nodes is the same node. Each knows its type,
// the line that made it, and its scope. A handle keeps its graph.
//
// Shapes follow NumPy: operands of other shapes are broadcast, axes from the last one on, where an
// extent is 1 or an axis is missing. Types follow heddle/expr.hpp: the common type of the operands;
// numbers take the type of what they meet; f16 and bf16 are for storing, and computed as f32.
//
// What does not fit throws Error(invalid_argument): it names the operation, its operands with their
// types and the lines that made them, what was expected, and what to do. The graph may be used on:
// nodes that the operation made on its way are needed by none, and finish() leaves them out.
//
// Not in graphs: loops and branches (the host's own, `where`, and unrolled loops do instead),
// extents that are not known when the graph is built, strings, complex numbers, types of less than
// a byte.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/expr.hpp"
#include "heddle/program.hpp"
#include "heddle/types.hpp"

namespace heddle::jit {
struct GraphState;
}  // namespace heddle::jit

#pragma GCC visibility push(default)
namespace heddle {

class Node;
class Operand;

/// The elementwise operations on nodes, found where an operand is a node: numbers alone make none.
/// What each means: heddle/expr.hpp. Comparisons give bool arrays.
struct NodeOperations {
  friend Node operator+(const Operand& a, const Operand& b);
  friend Node operator-(const Operand& a, const Operand& b);
  friend Node operator*(const Operand& a, const Operand& b);
  friend Node operator/(const Operand& a, const Operand& b);
  friend Node operator%(const Operand& a, const Operand& b);
  friend Node operator-(const Operand& a);
  friend Node operator!(const Operand& a);
  friend Node operator&&(const Operand& a, const Operand& b);
  friend Node operator||(const Operand& a, const Operand& b);
  friend Node operator<(const Operand& a, const Operand& b);
  friend Node operator<=(const Operand& a, const Operand& b);
  friend Node operator>(const Operand& a, const Operand& b);
  friend Node operator>=(const Operand& a, const Operand& b);
  friend Node operator==(const Operand& a, const Operand& b);
  friend Node operator!=(const Operand& a, const Operand& b);
  friend Node pow(const Operand& a, const Operand& b);
  friend Node max(const Operand& a, const Operand& b);
  friend Node min(const Operand& a, const Operand& b);
  friend Node relu_gate(const Operand& a, const Operand& b);
  friend Node satur01_gate(const Operand& a, const Operand& b);
  friend Node arg1(const Operand& a, const Operand& b);
  friend Node arg2(const Operand& a, const Operand& b);
  friend Node threefry(const Operand& key, const Operand& counter);
  friend Node threefry_light(const Operand& key, const Operand& counter);
  friend Node where(const Operand& condition, const Operand& a, const Operand& b);
  friend Node select(const Operand& condition, const Operand& a, const Operand& b);  ///< where()
  friend Node fma(const Operand& a, const Operand& b, const Operand& c);
  friend Node mul3(const Operand& a, const Operand& b, const Operand& c);
  friend Node identity(const Operand& x);
  friend Node relu(const Operand& x);
  friend Node satur01(const Operand& x);
  friend Node abs(const Operand& x);
  friend Node trunc(const Operand& x);
  friend Node floor(const Operand& x);
  friend Node ceil(const Operand& x);
  friend Node exp(const Operand& x);
  friend Node log(const Operand& x);
  friend Node exp2(const Operand& x);
  friend Node log2(const Operand& x);
  friend Node sin(const Operand& x);
  friend Node cos(const Operand& x);
  friend Node tanh(const Operand& x);
  friend Node erf(const Operand& x);
  friend Node sqrt(const Operand& x);
  friend Node recip(const Operand& x);
  friend Node rsqrt(const Operand& x);
  friend Node uniform(const Operand& bits);  ///< of u64 bits; random_uniform() takes a key
  friend Node cast(const Operand& x, DType to);
  friend Node bitcast(const Operand& x, DType to);
  /// Between `low` and `high`: max(low, min(x, high)), which is `low` where low > high.
  friend Node clamp(const Operand& x, const Operand& low, const Operand& high);
};

/// An array of a graph, not computed yet: a cheap shared handle. A default one is of no graph, and
/// refused wherever it is used.
class Node : NodeOperations {
 public:
  Node() = default;

  /// Stays where it is while the graph lives, whatever is added; dims() too.
  [[nodiscard]] const ArrayType& type() const;
  [[nodiscard]] DType dtype() const { return type().dtype; }
  [[nodiscard]] const Dims& dims() const { return type().dims; }
  [[nodiscard]] std::int64_t rank() const { return static_cast<std::int64_t>(dims().size()); }
  /// The line that made it first.
  [[nodiscard]] std::source_location where() const;
  /// "layers/3/attention": the scopes in which it was made first; empty outside of any.
  [[nodiscard]] std::string scope() const;
  /// Marks the node, with a message: its value comes back in GraphProgram::marked, for what runs
  /// the graph to tell. Marks are part of the graph's text.
  const Node& log(std::string message,
                  std::source_location where = std::source_location::current()) const;
  /// "%7 add f32[32,10]": its place among the nodes of its graph, as it was built.
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  Node(std::shared_ptr<jit::GraphState> state, std::uint32_t id) noexcept
      : state_(std::move(state)), id_(id) {}

  std::shared_ptr<jit::GraphState> state_;
  std::uint32_t id_ = 0;
};

/// What an operation on nodes takes: a node, or a number. Knows the place of the call.
class Operand : NodeOperations {
 public:
  Operand(const Node& node,  // NOLINT: implicit by design, x + y
          std::source_location where = std::source_location::current())
      : node_(node), where_(where) {}
  template <Number T>
  Operand(T number,  // NOLINT: x * 2
          std::source_location where = std::source_location::current())
      : number_(Expr(number)), where_(where) {}
  /// A default one where it is a number.
  [[nodiscard]] const Node& node() const noexcept { return node_; }
  [[nodiscard]] const std::optional<Expr>& number() const noexcept { return number_; }
  [[nodiscard]] std::source_location where() const noexcept { return where_; }

 private:
  Node node_;
  std::optional<Expr> number_;
  std::source_location where_;
};

/// Axes of a node; negative ones count from the last: -1 is the last one.
using Axes = std::vector<std::int64_t>;

/// A graph lowered: the program, and the tensors of the graph's parameters and results, in order,
/// and of what Node::log() marked. Tensors of results and marks keep their values on the device. A
/// parameter of which no element is needed is in no statement, so that no context has it
/// (Context::contains()).
struct GraphProgram {
  Program program;
  std::vector<Tensor> parameters;
  std::vector<Tensor> results;
  std::vector<Tensor> marked;
  std::vector<std::string> messages;  ///< of `marked`
};

/// A function of arrays: parameters, nodes made of them, results. A shared handle: what is const of
/// it is which graph it stands for, so that a const one builds as well.
class Graph {
 public:
  /// Throws invalid_argument where the name is empty.
  explicit Graph(std::string name = "graph",
                 std::source_location where = std::source_location::current());
  /// Copies are the same graph. Moving one copies it, so that none is ever empty.
  Graph(const Graph&) = default;
  Graph& operator=(const Graph&) = default;

  /// The next argument. Names are for people: two parameters may have the same.
  Node parameter(std::string name, ArrayType type,
                 std::source_location where = std::source_location::current()) const;
  /// One element, of type f32 for fractions, i32 for integers, bool for bool; or as `dtype` says,
  /// which integers beyond i32 need. Floats are rounded to the nearest f32 or f64, and 16-bit ones
  /// from f32. Throws where a number is too large for its type, and where an integer or bool is not
  /// exactly that number.
  template <Number T>
  Node constant(T number, std::source_location where = std::source_location::current()) const {
    constexpr DType dtype = std::same_as<T, bool>    ? DType::bool_
                            : std::floating_point<T> ? DType::f32
                                                     : DType::i32;
    return constant(number, dtype, where);
  }
  template <Number T>
  Node constant(T number, DType dtype,
                std::source_location where = std::source_location::current()) const {
    return scalar(Operand(number, where), dtype);
  }
  /// 0, 1, 2, ... along `axis`, the same along all others.
  Node iota(ArrayType type, std::int64_t axis = -1,
            std::source_location where = std::source_location::current()) const;

  /// While it lives, what this graph makes is in the scope `name`, within those that were around
  /// when it began; "" is none of its own. The one that began last decides, whichever ends first.
  class [[nodiscard]] Scope {
   public:
    Scope(const Graph& graph, std::string_view name);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    std::shared_ptr<jit::GraphState> state_;
  };
  [[nodiscard]] Scope scope(std::string_view name) const { return Scope(*this, name); }

  /// Ends building: the graph computes these, in this order; a node may be listed twice. Throws
  /// invalid_argument for none, for a node of no or another graph; failed_precondition the second
  /// time.
  const Graph& finish(std::vector<Node> results,
                      std::source_location where = std::source_location::current()) const;

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] bool finished() const noexcept;
  /// In the order in which they were made.
  [[nodiscard]] std::vector<Node> parameters() const;
  /// Empty before finish().
  [[nodiscard]] std::vector<Node> results() const;
  /// All that was made, also what no result needs.
  [[nodiscard]] std::size_t num_nodes() const noexcept;

  // The following throw failed_precondition before finish().

  /// Canonical text: the same construction prints the same bytes, whatever was built before. Holds
  /// the parameters and what the results need; names are comments.
  [[nodiscard]] std::string to_string() const;
  /// 128 bits of BLAKE2b of the text without names, as 32 hex digits.
  [[nodiscard]] std::string hash() const;
  /// The graph of a text that to_string() gave, with the names and scopes of its comments. Throws
  /// invalid_argument with line, column, what was expected and what was found.
  [[nodiscard]] static Graph parse(std::string_view text, std::string name = "graph",
                                   std::source_location where = std::source_location::current());
  /// New tensors at each call.
  [[nodiscard]] GraphProgram program() const;

 private:
  friend struct Inside;
  explicit Graph(std::shared_ptr<jit::GraphState> state) noexcept : state_(std::move(state)) {}
  Node scalar(const Operand& number, DType dtype) const;

  std::shared_ptr<jit::GraphState> state_;
};

}  // namespace heddle
#pragma GCC visibility pop
