// Graphs: functions of arrays, as values. A graph is built by one thread, from parameters and
// operations on nodes; once finished, any thread may use it. Graphs lower to Programs (F3).
//
// Nodes are immutable. Applying the same operation to the same nodes gives the same node. A node
// stores its type, source line and scope. A node handle keeps its graph alive.
//
// Shapes follow NumPy: operands are broadcast, aligned at the last axis, where an extent is 1 or an
// axis is missing. Types follow heddle/expr.hpp: the result has the operands' common type; numbers
// take the type of the other operand; f16 and bf16 are storage types, computed as f32.
//
// Invalid operands throw Error(invalid_argument), which names the operation, the operands with
// their types and the lines that made them, what was expected, and what to do. The graph remains
// usable: finish() leaves out any nodes that the failed operation made.
//
// Not supported in graphs: loops and branches (use host loops, `where`, and unrolled loops
// instead), extents unknown when the graph is built, strings, complex numbers, types smaller than a
// byte.
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

/// The elementwise operations on nodes, found by argument-dependent lookup where an operand is a
/// node; numbers alone do not make a node. heddle/expr.hpp defines every operation. Comparisons
/// return bool arrays.
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
  /// f32 and f64 to the number -1, -0.5, 0.5, 1.5, 2 or 3: a few products and a root, within 1.5
  /// units of the last place.
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
  /// Clamps x: max(low, min(x, high)), which is `low` if low > high.
  friend Node clamp(const Operand& x, const Operand& low, const Operand& high);
};

/// The index of x[i], with the source location of the call.
struct PartIndex {
  template <Integer T>
  PartIndex(T number,  // NOLINT: x[0]
            std::source_location at = std::source_location::current())
      : index(static_cast<std::int64_t>(number)), where(at) {}
  std::int64_t index;
  std::source_location where;
};

/// An array of a graph, not computed yet: a cheap shared handle. A default-constructed node belongs
/// to no graph, and every operation refuses it.
class Node : NodeOperations {
 public:
  Node() = default;

  /// The reference, like that of dims(), stays valid as long as the graph lives, even when nodes
  /// are added.
  [[nodiscard]] const ArrayType& type() const;
  [[nodiscard]] DType dtype() const { return type().dtype; }
  [[nodiscard]] const Dims& dims() const { return type().dims; }
  [[nodiscard]] const Dims& shape() const { return dims(); }
  [[nodiscard]] std::int64_t rank() const { return static_cast<std::int64_t>(dims().size()); }
  /// The source line that first made the node.
  [[nodiscard]] std::source_location where() const;
  /// The scopes in which the node was first made, "layers/3/attention"; empty outside any scope.
  [[nodiscard]] std::string scope() const;
  /// Marks the node with a message: GraphProgram::marked then includes its value, for the program's
  /// runner to log. Marks are part of the graph's text.
  const Node& log(std::string message,
                  std::source_location where = std::source_location::current()) const;
  /// x[i]: the part of x at `index` of the first axis, which the result lacks; a negative index
  /// counts from the end. Refuses an index outside the axis. take() reads at indices that a node
  /// computes, and along other axes.
  [[nodiscard]] Node operator[](const PartIndex& index) const { return part(index); }
  /// x += y is x = x + y: the handle becomes the sum's. Other handles stay as they are.
  Node& operator+=(const Operand& y);
  Node& operator-=(const Operand& y);
  Node& operator*=(const Operand& y);
  Node& operator/=(const Operand& y);
  /// "%7 add f32[32,10]", where 7 is the node's position in the graph, in order of construction.
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  Node(std::shared_ptr<jit::GraphState> state, std::uint32_t id) noexcept
      : state_(std::move(state)), id_(id) {}
  [[nodiscard]] Node part(const PartIndex& index) const;

  std::shared_ptr<jit::GraphState> state_;
  std::uint32_t id_ = 0;
};

/// An operand of an operation on nodes: a node or a number, with the source location of the call.
class Operand : NodeOperations {
 public:
  Operand(const Node& node,  // NOLINT: implicit by design, x + y
          std::source_location where = std::source_location::current())
      : node_(node), where_(where) {}
  template <Number T>
  Operand(T number,  // NOLINT: x * 2
          std::source_location where = std::source_location::current())
      : number_(Expr(number)), where_(where) {}
  /// Default-constructed if the operand is a number.
  [[nodiscard]] const Node& node() const noexcept { return node_; }
  [[nodiscard]] const std::optional<Expr>& number() const noexcept { return number_; }
  [[nodiscard]] std::source_location where() const noexcept { return where_; }

 private:
  Node node_;
  std::optional<Expr> number_;
  std::source_location where_;
};

inline Node& Node::operator+=(const Operand& y) { return *this = Operand(*this, y.where()) + y; }
inline Node& Node::operator-=(const Operand& y) { return *this = Operand(*this, y.where()) - y; }
inline Node& Node::operator*=(const Operand& y) { return *this = Operand(*this, y.where()) * y; }
inline Node& Node::operator/=(const Operand& y) { return *this = Operand(*this, y.where()) / y; }

/// Returns x, and stores its values in memory while the graph runs: every reader loads them.
/// Without keep(), heddle decides which nodes are stored, and computes the others where they are
/// read. Kept nodes are part of the graph's text. Throws failed_precondition in a finished graph.
Node keep(const Node& x, std::source_location where = std::source_location::current());

/// Axes of a node: a list, {0, 2}, or a single axis. A negative axis counts from the end: -1 is the
/// last.
class Axes : public std::vector<std::int64_t> {
 public:
  Axes() = default;
  template <Integer T>
  Axes(T axis)  // NOLINT: sum(x, 1)
      : vector(1, static_cast<std::int64_t>(axis)) {}
  Axes(std::initializer_list<std::int64_t> axes) : vector(axes) {}
  Axes(std::vector<std::int64_t> axes)  // NOLINT: a list that the program computes
      : vector(std::move(axes)) {}
};

/// A lowered graph: the program, and the tensors of the graph's parameters, results and nodes
/// marked by Node::log(), in order. Tensors of results and marks keep their values on the device.
/// If no element of a parameter is needed, the parameter appears in no statement, and no context
/// contains its tensor (Context::contains()).
struct GraphProgram {
  Program program;
  std::vector<Tensor> parameters;
  std::vector<Tensor> results;
  std::vector<Tensor> marked;
  std::vector<std::string> messages;  ///< messages of `marked`
};

/// A function of arrays: parameters, nodes computed from them, results. A shared handle: const
/// applies to the handle, not to the graph, so a const Graph can be built too.
class Graph {
 public:
  /// Throws invalid_argument if the name is empty.
  explicit Graph(std::string name = "graph",
                 std::source_location where = std::source_location::current());
  /// A copy refers to the same graph. A move copies the handle, so no handle is ever empty.
  Graph(const Graph&) = default;
  Graph& operator=(const Graph&) = default;

  /// Adds the next argument. Names are for people: two parameters may have the same name.
  Node parameter(std::string name, ArrayType type,
                 std::source_location where = std::source_location::current()) const;
  /// A scalar: f32 for fractions, i32 for integers, bool for bool; or of type `dtype`, which
  /// integers beyond i32 need. Floats are rounded to the nearest f32 or f64; 16-bit floats are
  /// rounded from f32. Throws if a number is too large for its type, or if an integer or bool type
  /// cannot hold it exactly.
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
  /// 0, 1, 2, ... along `axis`; equal along the other axes.
  Node iota(ArrayType type, std::int64_t axis = -1,
            std::source_location where = std::source_location::current()) const;

  /// During the lifetime of a Scope, new nodes of the graph are in the scope `name`, nested in the
  /// scopes open at its construction; "" adds no level. Scopes may be destroyed in any order: new
  /// nodes are in the scope constructed last among those that exist.
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

  /// Ends building: the graph computes `results`, in order; a node may be listed twice. Throws
  /// invalid_argument for an empty list and for a node of no or another graph; failed_precondition
  /// if the graph was finished already.
  const Graph& finish(std::vector<Node> results,
                      std::source_location where = std::source_location::current()) const;

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] bool finished() const noexcept;
  /// The parameters, in the order in which they were made.
  [[nodiscard]] std::vector<Node> parameters() const;
  /// Empty before finish().
  [[nodiscard]] std::vector<Node> results() const;
  /// The number of nodes made, including nodes that no result needs.
  [[nodiscard]] std::size_t num_nodes() const noexcept;

  // The following functions throw failed_precondition before finish().

  /// Canonical text: the same construction gives the same bytes, whatever was built before.
  /// Contains the parameters and the nodes that the results need; names are comments.
  [[nodiscard]] std::string to_string() const;
  /// 128 bits of BLAKE2b of the text without names, as 32 hex digits.
  [[nodiscard]] std::string hash() const;
  /// Parses a text from to_string(); names and scopes are read from its comments. Throws
  /// invalid_argument with line, column, expected and found text.
  [[nodiscard]] static Graph parse(std::string_view text, std::string name = "graph",
                                   std::source_location where = std::source_location::current());
  /// The lowered program, with new tensors at every call.
  [[nodiscard]] GraphProgram program() const;

 private:
  friend struct Inside;
  explicit Graph(std::shared_ptr<jit::GraphState> state) noexcept : state_(std::move(state)) {}
  Node scalar(const Operand& number, DType dtype) const;

  std::shared_ptr<jit::GraphState> state_;
};

}  // namespace heddle
#pragma GCC visibility pop
