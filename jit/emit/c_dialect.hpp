// A kernel as C text: the hooks of emit/walk.hpp, with their documentation. The C is meant to be
// read: kernels keep the loops, names and order of the loop text, one line per statement.
// Operations that C spells exactly are operators; all other operations are calls of primitive
// functions (value/primitives.hpp). Not thread-safe: one object per kernel being emitted.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "jit/emit/c_primitives.hpp"
#include "jit/emit/c_vectors.hpp"
#include "jit/emit/emit.hpp"

namespace heddle::jit {

class CDialect {
 public:
  using Made = std::string;   ///< a value's expression, which needs no parentheses
  using Place = std::string;  ///< address of a vector's lanes in memory: a pointer
  /// Deeper expressions are cut into temporaries: clang refuses more than 256 brackets.
  static constexpr int expression_depth_max = 40;

  CDialect(const Loop& loop, CPrimitives& primitives, CVectors& vectors, std::string& out)
      : loop_(loop), out_(out), primitives_(primitives), vectors_(vectors) {}

  // The kernel.
  /// Writes the kernel's head, and reads static indices from the arguments.
  void begin_kernel(const KernelSource& kernel);
  /// Called before the first statement of the top level that uses the buffer.
  void take_address(const KernelSource& kernel, BufferId k);
  void end_kernel() { out_ += "}\n"; }
  /// Declares zero(): a 64-bit zero whose value the compiler does not know.
  void declare_zero();
  [[nodiscard]] Made zero() const { return "zero"; }
  /// Declares the word that check_stop() reads: the caller's word, or a word that is never set.
  void declare_stop();
  void check_stop();
  /// The target of check_stop()'s jump: sets the status to stopped.
  void end_stops();
  /// Returns in all parts but the first.
  void leave_to_first_part() { line("if (args->part != 0) return;"); }
  template <class Body>
  void by_first_part(const Body& body) {
    line("if (args->part == 0) {{");
    inner(body);
  }
  /// The begin and end of the current part's slice of the loop.
  [[nodiscard]] std::pair<Made, Made> slice(const Stmt& loop);
  /// Makes streamed stores visible to other threads.
  void end_streams();

  // Statements.
  void comment(const std::string& text) { line("// {}", comment_text(text)); }
  /// Opens a scope for the declarations of `body`.
  template <class Body>
  void scoped(const Body& body) {
    line("{{");
    inner(body);
  }
  /// Binds a variable of the loop text to a single value.
  void bind(VarId var, const Made& value) {
    line("const i64 {} = {};", variable(var), c_bare(value));
  }
  template <class Body>
  void when(const Made& condition, const Body& body) {
    line("if ({}) {{", c_bare(condition));
    inner(body);
  }
  /// An iteration of an unrolled loop.
  template <class Body>
  void unrolled_copy(VarId var, std::int64_t k, const Body& body) {
    line("{{  // i{} = {}", var, k);
    inner(body);
  }
  /// `stays`: tells the compiler not to unroll the loop.
  template <class Body>
  void loop(VarId var, const Made& from, const Made& to, bool stays, const Body& body) {
    if (stays) line("#pragma GCC unroll 1");
    line("for (i64 {0} = {1}; {0} < {2}; ++{0}) {{", variable(var), from, to);
    inner(body);
  }
  /// A loop in pieces of `period` iterations, with a check_stop() before each piece: body(from, to)
  /// makes the loop over a piece.
  template <class Body>
  void stop_loop(VarId var, const Made& from, const Made& to, std::int64_t period,
                 const Body& body) {
    pieces(var, from, to, period, [this] { check_stop(); }, body);
  }
  /// body(at) for each of `count` elements.
  template <class Body>
  void each_element(std::int64_t count, const Body& body) {
    line("for (i64 at = 0; at < {}; ++at) {{", number(count));
    inner([&] { body("at"); });
  }
  void zero_buffer(BufferId buffer);
  void declare(LocalId local, DType type, const Made& start);
  void assign(LocalId local, const Made& value) {
    line("{} = {};", this->local(local), c_bare(value));
  }
  void assign_element(LocalId local, const Made& at, const Made& value) {
    line("{} = {};", element(local, at), c_bare(value));
  }
  void store(BufferId buffer, const Made& at, const Made& value) {
    line("t{}[{}] = {};", buffer, at, c_bare(value));
  }
  void prefetch(const PrefetchGroup& group);
  /// Keeps the surrounding loop from becoming vectors.
  void empty_asm() { line("__asm__(\"\");"); }
  /// Calls the tracer, if there is one, with the number of the assignment, the element, and its
  /// values before and after.
  void tell(std::uint32_t assignment, BufferId buffer, const Made& at, const Made& before,
            const Made& after);

  // Values.
  /// A variable that holds the value, with this name in readable output.
  [[nodiscard]] Made named(const char* name, DType type, const Made& value);
  [[nodiscard]] Made temporary(DType type, const Made& value);
  /// A variable that holds the value, unknown to the compiler.
  [[nodiscard]] Made hidden(DType type, const Made& value);
  /// A number in a context that converts it to i64: bounds, subscripts, sums with i64.
  [[nodiscard]] static Made number(std::int64_t v);
  [[nodiscard]] static Made index(const Affine& a);
  /// An index as an operand of type i64.
  [[nodiscard]] static Made embed(const Affine& a);
  [[nodiscard]] static Made literal(const Scalar& scalar) { return c_literal(scalar); }
  [[nodiscard]] static Made zero_of(DType) { return "0"; }
  [[nodiscard]] Made load(BufferId buffer, const Made& at) const;
  [[nodiscard]] static Made local(LocalId local) { return fmt::format("x{}", local); }
  /// An element of a local block that is an array.
  [[nodiscard]] static Made element(LocalId local, const Made& at) {
    return fmt::format("x{}[{}]", local, at);
  }
  [[nodiscard]] Made apply(const PrimFunction& function, const std::vector<Made>& args) {
    return primitives_.apply(function, args);
  }

  // Local blocks: arrays, or vector variables. Every element begins as `start`.
  void declare_array(LocalId local, const ArrayType& type, const Made& start);
  /// `rows` are the names of the variables.
  void declare_rows(LocalId local, DType type, const std::vector<std::vector<std::string>>& rows,
                    const Made& start);
  /// Declares variables for the columns of a block of rows.
  void declare_columns(LocalId local, DType type, std::int64_t count);

  // Vectors.
  /// Sets the number of lanes of the following code to that of a vector of this type.
  void begin_lanes(DType type);
  /// A variable with the value in all lanes.
  [[nodiscard]] Made in_all_lanes(DType type, const Made& scalar);
  [[nodiscard]] Made constant_lanes(DType type, const std::vector<Scalar>& lanes);
  [[nodiscard]] static Place in_buffer(BufferId buffer, const Affine& at) {
    return pointer(fmt::format("t{}", buffer), at);
  }
  [[nodiscard]] static Place in_array(LocalId local, const Affine& at) {
    return pointer(fmt::format("x{}", local), at);
  }
  [[nodiscard]] Made load_lanes(DType type, const Place& from, const LanePart& part);
  void store_lanes(DType type, const Place& to, const Made& value, const LanePart& part);
  /// Rounds f32 lanes to f16; the result is f32 lanes.
  [[nodiscard]] Made round_to_half(const Made& value) {
    return fmt::format("{}_round_to_half({})", vectors_.use(DType::f16), c_bare(value));
  }
  /// A store that bypasses the caches; whole vectors only.
  void stream_lanes(DType type, const Place& to, const Made& value);
  /// Lanes of two vectors: a lane's index counts the lanes of the first, and then of the second.
  [[nodiscard]] static Made permute(DType type, const Made& first, const Made& second,
                                    const std::vector<std::int64_t>& indices);
  void declare_lanes(const std::string& name, DType type, const Made& value);
  void assign_lanes(const std::string& name, const Made& value) { line("{} = {};", name, value); }
  /// The value of the vector variable with this name.
  [[nodiscard]] static Made lanes(const std::string& name) { return name; }
  /// Makes the columns, from `first` on, of a block from its rows.
  void turn(LocalId local, const ArrayType& type, std::int64_t first,
            const std::vector<std::string>& rows);
  [[nodiscard]] static Made column(LocalId local, std::int64_t k) {
    return fmt::format("x{}_columns[{}]", local, k);
  }
  /// An operand of apply_lanes(), announced before the next operand is made.
  [[nodiscard]] static Made lane_operand(DType, Made value) { return value; }
  [[nodiscard]] Made apply_lanes(const PrimFunction& function, const std::vector<Made>& args) {
    return vectors_.apply(function, args, word_);
  }

 protected:
  /// See stop_loop().
  template <class Check, class Body>
  void pieces(VarId var, const Made& from, const Made& to, std::int64_t period, const Check& check,
              const Body& body) {
    const Made at = fmt::format("i{}_at", var);
    const Made next = fmt::format("i{}_next", var);
    line("for (i64 {0} = {1}, {2}; {0} < {3}; {0} = {2}) {{", at, from, next, to);
    inner([&] {
      check();
      line("{0} = (u64){1} - (u64){2} > {3}u ? {2} + {3} : {1};", next, to, at, period);
      body(at, next);
    });
  }
  /// Bytes of bool buffers may hold more than 0 and 1, so they are not _Bool.
  [[nodiscard]] static std::string_view storage_type(DType t) {
    return t == DType::bool_ ? "u8" : c_type(t);
  }
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... args) {
    out_.append(2 * depth_, ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<A>(args)...);
    out_ += '\n';
  }
  /// Writes the body after a line that ends with a brace, and the closing brace.
  template <class Body>
  void inner(const Body& body) {
    ++depth_;
    body();
    --depth_;
    line("}}");
  }
  [[nodiscard]] static std::string variable(VarId id);
  /// "  // NAME" for a buffer or static index with a name.
  [[nodiscard]] static std::string name_comment(const std::vector<std::string>& names,
                                                std::size_t k);

  const Loop& loop_;
  std::string& out_;

 private:
  [[nodiscard]] static Place pointer(std::string array, const Affine& at);

  CPrimitives& primitives_;
  CVectors& vectors_;
  std::size_t depth_ = 1;
  int temporaries_ = 0;
  int splats_ = 0;
  DType word_ = DType::u32;  // the size of lanes
};

}  // namespace heddle::jit
