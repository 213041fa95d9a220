// The loop IR: a kernel as nested loops over typed buffers. Immutable once built: passes make new
// trees and share unchanged parts. Any thread may read a tree.
//
// Conventions: arithmetic happens only in compute types (bool, integers, f32, f64); f16 and bf16
// appear in buffers, locals and as the target or source of a cast. Subscripts are affine in loop
// variables and static indices and are in range by construction (loop/verify.hpp proves the range;
// link checks the statics). A position that is computed from data is also a variable: a statement
// (StmtKind::at) binds it and enforces its range. Everything is numbered by first appearance; user
// names live beside the tree, never in it.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/types.hpp"
#include "jit/value/ops.hpp"

namespace heddle::jit {

/// Loops, and values, nest at most this deep in a legal kernel: walks may recurse.
inline constexpr int loop_depth_max = 1000;
inline constexpr int value_depth_max = 2500;
/// The most copies of a statement that marks make: iterations of the surrounding unrolled loops
/// times iterations of the lanes loop.
inline constexpr std::int64_t copies_max = 4096;
/// Bytes of all local blocks in scope: blocks live in registers and on the stack or, on a GPU, in
/// the memory of a group. A kernel whose blocks would exceed the limit together is cut, as a
/// compiler may give every block separate memory.
inline constexpr std::int64_t block_bytes_max = 256 << 10;
/// Threads of a group on a GPU: the product of the iterations of nested block loops.
inline constexpr std::int64_t group_threads_max = 1024;
/// Threads of a group that run together.
inline constexpr std::int64_t warp_threads = 32;
/// Bytes of the blocks that threads of a group share, in all nests of a kernel together: compilers
/// give every block separate memory.
inline constexpr std::int64_t group_bytes_max = 48 << 10;

using BufferId = std::uint32_t;  ///< position in Loop::buffers
using VarId = std::uint32_t;     ///< loop variable
using StaticId = std::uint32_t;  ///< position in Loop::statics
using LocalId = std::uint32_t;   ///< local: a scalar, or a block of scalars

/// How the kernel uses a buffer.
enum class Role : std::uint8_t {
  input,    ///< only read
  output,   ///< only written (or written before it is read)
  inout,    ///< read before written, and written
  merge,    ///< the merge buffer: another device's tensor, only read
  scratch,  ///< lives for one run; contents undefined at entry
};

struct BufferDecl {
  Role role = Role::input;
  ArrayType type;
  friend bool operator==(const BufferDecl&, const BufferDecl&) = default;
};

struct StaticDecl {
  std::optional<std::int64_t>
      range;  ///< values are in [0, range); none: checked by use, see signature
  friend bool operator==(const StaticDecl&, const StaticDecl&) = default;
};

/// coefficient * (a loop variable or a static index)
struct AffineTerm {
  enum class Kind : std::uint8_t { loop, static_index };
  Kind kind = Kind::loop;
  std::uint32_t id = 0;
  std::int64_t coefficient = 1;
  friend auto operator<=>(const AffineTerm&, const AffineTerm&) = default;
};

/// constant + sum of terms. Canonical: terms ordered by (kind, id), no zero coefficient, no
/// repeats.
struct Affine {
  std::int64_t constant = 0;
  std::vector<AffineTerm> terms;
  /// An arbitrary order, for searching equal indices.
  friend auto operator<=>(const Affine&, const Affine&) = default;
};

struct Value;
using ValuePtr = std::shared_ptr<const Value>;

enum class ValueKind : std::uint8_t {
  constant,  ///< scalar
  load,      ///< buffer[subscripts]; dtype is the buffer's (a merge buffer included)
  local,     ///< a declared local; of a block, the element at the subscripts
  embed,     ///< the value of an affine index, as i64
  op,        ///< op(args...)
  cast,      ///< args[0] converted to dtype, see convert()
};

struct Value {
  ValueKind kind = ValueKind::constant;
  DType dtype = DType::f32;
  Scalar scalar;                   // constant
  BufferId buffer = 0;             // load
  std::vector<Affine> subscripts;  // load, local
  LocalId local = 0;               // local
  Affine index;                    // embed
  Op op = Op::identity;            // op
  std::vector<ValuePtr> args;      // op, cast
};

struct Stmt;
using StmtPtr = std::shared_ptr<const Stmt>;
using Block = std::vector<StmtPtr>;

enum class StmtKind : std::uint8_t {
  comment,  ///< text
  loop,     ///< for var in [from, to): body
  /// A computed position: the body runs once, with var = value, an integer. For a value outside
  /// [from, to), var is the nearest value inside if `nearest` is set; otherwise the body does not
  /// run. Therefore no subscript leaves its buffer, whatever the value.
  at,
  zero,   ///< every element of buffer becomes 0
  store,  ///< buffer[subscripts] = value (value->dtype is the buffer's dtype)
  /// A new local, visible in the rest of the block, = value. With extents the local is a block (a
  /// register tile, a few rows): every element begins as the value.
  declare,
  assign,  ///< local = value; of a block, local[subscripts] = value
  /// buffer[subscripts] is used soon: a hint without effect on results. A prefetch for reading may
  /// lie an extent beyond either end of an axis: there is always a next row to fetch.
  prefetch,
};

/// How a loop may run. Marks never change the results: run as plain loops, all loops give the same
/// bits.
enum class LoopMark : std::uint8_t {
  serial,
  /// Iterations touch disjoint data and may be split over parts or, on a GPU, over groups of
  /// threads; the launcher keeps the code before and after the loop apart.
  parallel,
  unroll,  ///< the body is emitted once per iteration
  lanes,   ///< innermost; iterations touch disjoint data and run as the lanes of vectors
  /// in a parallel loop: iterations touch disjoint data and are a group's threads; the work of all
  /// threads in a block loop comes before their work in the next
  block,
};

enum class Prefetch : std::uint8_t {
  load,        ///< into the first-level cache
  load_later,  ///< into the second-level cache
  store,
};

struct Stmt {
  StmtKind kind = StmtKind::comment;
  std::string text;                  // comment
  std::string order;                 // comment: of a schedule's float sum, see sum_orders()
  VarId var = 0;                     // loop, at
  std::int64_t from = 0, to = 0;     // loop, at; half-open
  LoopMark mark = LoopMark::serial;  // loop
  bool nearest = false;              // at
  Block body;                        // loop, at
  BufferId buffer = 0;               // zero, store, prefetch
  std::vector<Affine> subscripts;    // store, assign, prefetch
  bool stream = false;               // store: bypasses the caches, no read follows soon
  bool atomic = false;               // store: an accumulation, see loop/accumulation.hpp
  Prefetch next = Prefetch::load;    // prefetch: the next use of the element
  LocalId local = 0;                 // declare, assign
  Dims dims;                         // declare: extents of a block; empty: a scalar
  ValuePtr value;                    // store, declare, assign, at
};

/// True if the statement binds `var`, in scope in its body.
[[nodiscard]] inline bool binds_variable(const Stmt& stmt) noexcept {
  return stmt.kind == StmtKind::loop || stmt.kind == StmtKind::at;
}

/// A kernel in loop form: declarations and statements. Names are numbered, see loop/text.hpp.
struct Loop {
  std::vector<BufferDecl> buffers;
  std::vector<StaticDecl> statics;
  Block body;
};

// Builders: the only way to make nodes, so that dtypes and canonical forms hold by construction.
/// Every NaN becomes the same quiet NaN, as the text has a single NaN.
[[nodiscard]] ValuePtr make_constant(const Scalar& scalar);
[[nodiscard]] ValuePtr make_load(BufferId buffer, DType dtype, std::vector<Affine> subscripts);
[[nodiscard]] ValuePtr make_local(LocalId local, DType dtype, std::vector<Affine> subscripts = {});
[[nodiscard]] ValuePtr make_embed(Affine index);
/// Converts operands as type_op() requires; internal error when the types are incompatible.
[[nodiscard]] ValuePtr make_op(Op op, std::vector<ValuePtr> args);
/// Returns `value` itself when it has the type already.
[[nodiscard]] ValuePtr make_cast(ValuePtr value, DType to);
/// Control characters become blanks: a comment is one line of the text.
[[nodiscard]] StmtPtr make_comment(std::string text);
/// A comment on a sum whose terms a schedule took in another order than the loops had; `order` is
/// not part of the text, and is ignored when loops are compared.
[[nodiscard]] StmtPtr make_comment(std::string text, std::string order);
[[nodiscard]] StmtPtr make_loop(VarId var, std::int64_t from, std::int64_t to, Block body,
                                LoopMark mark = LoopMark::serial);
[[nodiscard]] StmtPtr make_at(VarId var, std::int64_t from, std::int64_t to, ValuePtr value,
                              bool nearest, Block body);
[[nodiscard]] StmtPtr make_zero(BufferId buffer);
[[nodiscard]] StmtPtr make_store(BufferId buffer, std::vector<Affine> subscripts, ValuePtr value,
                                 bool stream = false);
/// A store whose value is an accumulation into the element: iterations that run at once may store
/// to the same element.
[[nodiscard]] StmtPtr make_atomic_store(BufferId buffer, std::vector<Affine> subscripts,
                                        ValuePtr value);
[[nodiscard]] StmtPtr make_declare(LocalId local, ValuePtr value, Dims dims = {});
[[nodiscard]] StmtPtr make_assign(LocalId local, ValuePtr value,
                                  std::vector<Affine> subscripts = {});
[[nodiscard]] StmtPtr make_prefetch(BufferId buffer, std::vector<Affine> subscripts, Prefetch next);

// Affine arithmetic (internal error on 64-bit overflow).
[[nodiscard]] Affine affine_var(VarId var, std::int64_t coefficient = 1);
[[nodiscard]] Affine affine_static(StaticId id, std::int64_t coefficient = 1);
[[nodiscard]] Affine affine_add(const Affine& a, const Affine& b);
[[nodiscard]] Affine affine_scale(const Affine& a, std::int64_t factor);
/// The coefficient of a loop's variable; 0 where the index is without it.
[[nodiscard]] std::int64_t affine_coefficient(const Affine& a, VarId var) noexcept;
/// True if the index, or one of the subscripts, has the variable of a loop.
[[nodiscard]] bool moves_with(const Affine& index, VarId var) noexcept;
[[nodiscard]] bool moves_with(const std::vector<Affine>& subscripts, VarId var) noexcept;

/// Structural equality of values and statements (text of comments included).
[[nodiscard]] bool equal(const Value& a, const Value& b);
[[nodiscard]] bool equal(const Stmt& a, const Stmt& b);
[[nodiscard]] bool operator==(const Loop& a, const Loop& b);

}  // namespace heddle::jit
