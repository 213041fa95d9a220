// Describing computations: Tensor, Index, Expr and Program. All are cheap shared handles on
// immutable or internally locked state; any thread may build and read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/host_array.hpp"
#include "heddle/types.hpp"

namespace heddle {

namespace jit {
struct ExprNode;       // jit/expr.hpp
struct TensorState;    // jit/tensor.hpp
struct StatementNode;  // jit/expr.hpp
}  // namespace jit

/// Where a tensor's values live while routines run (reference 3C). Requests refine each other by a
/// table; a clash throws with both provenances.
enum class MemoryMode : std::uint8_t {
  unset,                 ///< no wish: decided per program
  effectively_constant,  ///< never changes: inlined, or kept as a hosted constant
  virtual_,              ///< never stored: recomputed where it is read
  never_virtual,         ///< stored somehow
  local,                 ///< scratch of one run
  device_only,           ///< local or on_device
  on_device,             ///< persistent in device memory
  materialized,          ///< on_device or hosted
  hosted_constant,       ///< host storage, never changed
  hosted_nonconstant,    ///< host storage, changed by one side (not yet said which)
  hosted_changed_on_devices,
  hosted_volatile,  ///< host storage that the host changes between runs
};
[[nodiscard]] std::string_view name(MemoryMode mode) noexcept;

/// An iteration index of statements. Its extent is inferred from the axes it subscripts, or given.
class Index {
 public:
  Index();
  /// `extent` iterations: needed only where no plain subscript fixes it.
  explicit Index(std::int64_t extent);
  explicit Index(std::string label, std::optional<std::int64_t> extent = {});
  [[nodiscard]] std::uint64_t id() const noexcept { return state_->id; }
  [[nodiscard]] const std::string& label() const noexcept { return state_->label; }
  [[nodiscard]] std::optional<std::int64_t> extent() const noexcept { return state_->extent; }

 private:
  struct State {
    std::uint64_t id;
    std::string label;
    std::optional<std::int64_t> extent;
  };
  std::shared_ptr<const State> state_;
};

/// An index whose value the caller binds at each schedule: routine.schedule({{step, 3}}).
class StaticIndex {
 public:
  /// Values are 0 <= v < range where a range is given; checked when a routine is scheduled.
  explicit StaticIndex(std::string label, std::optional<std::int64_t> range = {});
  [[nodiscard]] std::uint64_t id() const noexcept { return state_->id; }
  [[nodiscard]] const std::string& label() const noexcept { return state_->label; }
  [[nodiscard]] std::optional<std::int64_t> range() const noexcept { return state_->range; }
  friend bool operator==(const StaticIndex& a, const StaticIndex& b) noexcept {
    return a.state_ == b.state_;
  }

 private:
  struct State {
    std::uint64_t id;
    std::string label;
    std::optional<std::int64_t> range;
  };
  std::shared_ptr<const State> state_;
};

/// An affine subscript: constant + sum of coefficient * index, e.g. 2*i + k - 1.
class Subscript {
 public:
  struct Term {
    std::variant<Index, StaticIndex> index;
    std::int64_t coefficient;
  };
  Subscript(const Index& index);        // NOLINT: implicit by design, t(i)
  Subscript(const StaticIndex& index);  // NOLINT
  Subscript(std::int64_t constant);     // NOLINT
  Subscript(int constant) : Subscript(static_cast<std::int64_t>(constant)) {}  // NOLINT
  [[nodiscard]] std::int64_t constant() const noexcept { return constant_; }
  [[nodiscard]] const std::vector<Term>& terms() const noexcept { return terms_; }

  /// a + factor * b; throws invalid_argument when a coefficient leaves 64 bits.
  [[nodiscard]] static Subscript combine(const Subscript& a, std::int64_t factor,
                                         const Subscript& b);

 private:
  std::int64_t constant_ = 0;
  std::vector<Term> terms_;
};
[[nodiscard]] inline Subscript operator+(const Subscript& a, const Subscript& b) {
  return Subscript::combine(a, 1, b);
}
[[nodiscard]] inline Subscript operator-(const Subscript& a, const Subscript& b) {
  return Subscript::combine(a, -1, b);
}
[[nodiscard]] inline Subscript operator*(std::int64_t factor, const Subscript& a) {
  return Subscript::combine(0, factor, a);
}
[[nodiscard]] inline Subscript operator*(const Subscript& a, std::int64_t factor) {
  return factor * a;
}

/// A value at one point of the iteration space: an immutable expression tree.
class Expr {
 public:
  Expr(double constant);        // NOLINT: literals take the type of what they meet
  Expr(int constant);           // NOLINT
  Expr(std::int64_t constant);  // NOLINT
  Expr(bool constant);          // NOLINT
  explicit Expr(std::shared_ptr<const jit::ExprNode> node) : node_(std::move(node)) {}
  [[nodiscard]] const jit::ExprNode& node() const noexcept { return *node_; }
  [[nodiscard]] const std::shared_ptr<const jit::ExprNode>& shared() const noexcept {
    return node_;
  }

 private:
  std::shared_ptr<const jit::ExprNode> node_;
};

/// A reduction over the indices that are missing on the left: c(i) = sum(a(i, k)).
class Reduction;

/// One statement of a program; made by assigning to a tensor access.
class Statement {
 public:
  explicit Statement(std::shared_ptr<const jit::StatementNode> node) : node_(std::move(node)) {}
  [[nodiscard]] const jit::StatementNode& node() const noexcept { return *node_; }
  [[nodiscard]] const std::shared_ptr<const jit::StatementNode>& shared() const noexcept {
    return node_;
  }

 private:
  std::shared_ptr<const jit::StatementNode> node_;
};

class Tensor;

/// A subscripted tensor: an Expr where it is read, the target of a Statement where it is assigned.
/// Accumulations reduce over the indices missing on the left and keep what the target held.
class Access {
 public:
  Access(const Access&) = default;
  operator Expr() const;  // NOLINT: reads the element
  [[nodiscard]] const Tensor& tensor() const noexcept { return *tensor_; }
  [[nodiscard]] const std::vector<Subscript>& subscripts() const noexcept { return subscripts_; }

  Statement operator=(const Expr& value) const;
  Statement operator=(const Access& value) const { return *this = Expr(value); }
  Statement operator=(const Reduction& value) const;
  Statement operator+=(const Expr& value) const;
  Statement operator-=(const Expr& value) const;
  Statement operator*=(const Expr& value) const;
  Statement operator/=(const Expr& value) const;
  Statement operator&=(const Expr& value) const;  ///< logical and
  Statement operator|=(const Expr& value) const;  ///< logical or
  Statement max_with(const Expr& value) const;
  Statement min_with(const Expr& value) const;

 private:
  friend class Tensor;
  Access(const Tensor& tensor, std::vector<Subscript> subscripts);
  std::shared_ptr<const Tensor> tensor_;
  std::vector<Subscript> subscripts_;
};

/// The declaration of a named n-d array: id, label, ArrayType, memory mode and optional host
/// storage. A shared handle: copies are the same tensor. Comparison and hash go by identity.
class Tensor {
 public:
  /// Throws invalid_argument for a negative extent or a size that overflows 63 bits (D3).
  Tensor(std::string label, DType dtype, Dims dims);
  /// A tensor with host storage (O39): type and values come from `host`.
  Tensor(std::string label, HostArray host, MemoryMode mode = MemoryMode::hosted_nonconstant,
         std::source_location where = std::source_location::current());

  [[nodiscard]] std::uint64_t id() const noexcept;
  [[nodiscard]] const std::string& label() const noexcept;
  [[nodiscard]] const ArrayType& type() const noexcept;
  [[nodiscard]] DType dtype() const noexcept { return type().dtype; }
  [[nodiscard]] const Dims& dims() const noexcept { return type().dims; }
  [[nodiscard]] std::int64_t num_elements() const noexcept { return *type().num_elements(); }
  [[nodiscard]] std::int64_t num_bytes() const noexcept { return *type().num_bytes(); }

  /// Refines the memory mode (reference 3C's table). A clash throws invalid_argument with both
  /// provenances and changes nothing. Any thread.
  const Tensor& set_mode(MemoryMode mode,
                         std::source_location where = std::source_location::current()) const;
  [[nodiscard]] MemoryMode mode() const;
  /// Who asked for the present mode, "file:line"; empty while unset.
  [[nodiscard]] std::string mode_provenance() const;

  /// Gives host storage; its type must equal type(). Sets a hosted mode.
  const Tensor& set_host(HostArray host, MemoryMode mode = MemoryMode::hosted_nonconstant,
                         std::source_location where = std::source_location::current()) const;
  /// The host storage; nullopt when there is none.
  [[nodiscard]] std::optional<HostArray> host() const;

  template <class... S>
    requires(std::is_convertible_v<S, Subscript> && ...)
  [[nodiscard]] Access operator()(S&&... subscripts) const {
    return Access(*this, std::vector<Subscript>{Subscript(std::forward<S>(subscripts))...});
  }
  [[nodiscard]] Access at(std::vector<Subscript> subscripts) const {
    return Access(*this, std::move(subscripts));
  }

  friend bool operator==(const Tensor& a, const Tensor& b) noexcept { return a.state_ == b.state_; }
  /// "c#12 f32[64,32] on_device"
  [[nodiscard]] std::string to_string() const;

 private:
  std::shared_ptr<jit::TensorState> state_;
};

/// Reads of the merge buffer: merge(g)(i, j) is element (i, j) of the tensor that the device's
/// merge buffer holds, which must be `g` when the routine runs (D7). One merge tensor per program
/// (J5).
class MergeAccess {
 public:
  explicit MergeAccess(Tensor tensor) : tensor_(std::move(tensor)) {}
  template <class... S>
    requires(std::is_convertible_v<S, Subscript> && ...)
  [[nodiscard]] Expr operator()(S&&... subscripts) const {
    return at(std::vector<Subscript>{Subscript(std::forward<S>(subscripts))...});
  }
  [[nodiscard]] Expr at(std::vector<Subscript> subscripts) const;

 private:
  Tensor tensor_;
};
[[nodiscard]] inline MergeAccess merge(const Tensor& tensor) { return MergeAccess(tensor); }

class Reduction {
 public:
  enum class Kind : std::uint8_t { sum, product, maximum, minimum, all, any };
  Reduction(Kind kind, Expr value) : kind_(kind), value_(std::move(value)) {}
  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] const Expr& value() const noexcept { return value_; }

 private:
  Kind kind_;
  Expr value_;
};
// A target assigned a Reduction starts from the neutral element; what it held before does not
// matter. Where the largest or smallest values of a float row are zeros of both signs, which of
// them results depends on the schedule; it is the same on every run.
[[nodiscard]] inline Reduction sum(Expr e) { return {Reduction::Kind::sum, std::move(e)}; }
[[nodiscard]] inline Reduction product(Expr e) { return {Reduction::Kind::product, std::move(e)}; }
[[nodiscard]] inline Reduction maximum(Expr e) { return {Reduction::Kind::maximum, std::move(e)}; }
[[nodiscard]] inline Reduction minimum(Expr e) { return {Reduction::Kind::minimum, std::move(e)}; }
[[nodiscard]] inline Reduction all(Expr e) { return {Reduction::Kind::all, std::move(e)}; }
[[nodiscard]] inline Reduction any(Expr e) { return {Reduction::Kind::any, std::move(e)}; }

// Operations on elements. Operands of different types meet in their common type (jit/ops.hpp:
// promote); where there is none (u64 with a signed type) these throw invalid_argument naming both:
// cast one.
Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr operator%(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
Expr operator!(const Expr& a);
Expr operator<(const Expr& a, const Expr& b);
Expr operator<=(const Expr& a, const Expr& b);
Expr operator>(const Expr& a, const Expr& b);
Expr operator>=(const Expr& a, const Expr& b);
Expr operator==(const Expr& a, const Expr& b);
Expr operator!=(const Expr& a, const Expr& b);
Expr operator&&(const Expr& a, const Expr& b);
Expr operator||(const Expr& a, const Expr& b);
Expr pow(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr relu_gate(const Expr& a, const Expr& b);     ///< a > 0 ? b : 0
Expr satur01_gate(const Expr& a, const Expr& b);  ///< 0 < a < 1 ? b : 0
Expr arg1(const Expr& a, const Expr& b);
Expr arg2(const Expr& a, const Expr& b);
Expr identity(const Expr& x);
Expr relu(const Expr& x);
Expr satur01(const Expr& x);
Expr abs(const Expr& x);
Expr trunc(const Expr& x);
Expr floor(const Expr& x);
Expr ceil(const Expr& x);
Expr exp(const Expr& x);
Expr log(const Expr& x);
Expr exp2(const Expr& x);
Expr log2(const Expr& x);
Expr sin(const Expr& x);
Expr cos(const Expr& x);
Expr tanh(const Expr& x);
Expr erf(const Expr& x);
Expr sqrt(const Expr& x);
Expr recip(const Expr& x);
Expr rsqrt(const Expr& x);
Expr where(const Expr& condition, const Expr& a, const Expr& b);
Expr fma(const Expr& a, const Expr& b, const Expr& c);
Expr mul3(const Expr& a, const Expr& b, const Expr& c);
/// 64 random bits for (key, counter), both u64: Threefry-2x32-20 (Salmon et al., SC 2011).
Expr threefry(const Expr& key, const Expr& counter);
Expr threefry_light(const Expr& key, const Expr& counter);  ///< 12 rounds
Expr uniform(const Expr& bits);                             ///< u64 bits to f32 in [0, 1)
Expr cast(const Expr& x, DType to);
/// The value of an index expression, as i64.
Expr embed(const Subscript& index);

/// Ordered assignments over tensors: what the user describes. A Program is built by one thread and
/// is then a value: copies share, later appends to one copy do not show in another.
class Program {
 public:
  /// `name` may be empty: compile then needs one from a comment or an option (O22).
  explicit Program(std::string name = {});

  /// Appends. Throws invalid_argument on subscripts that do not fit their tensor, on an index
  /// without an extent, on extents that clash (naming tensors, axes and sizes), on an unreduced
  /// index under `=`, on a second merge tensor.
  Program& operator<<(const Statement& statement);
  /// Appends all statements of another program (its comments too).
  Program& operator<<(const Program& other);
  /// A comment: shows in the loop text, and names a nameless program (O22).
  Program& comment(std::string text);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::vector<Statement>& statements() const noexcept { return statements_; }
  [[nodiscard]] bool empty() const noexcept { return statements_.empty(); }
  /// The tensor read through the merge buffer; nullopt when none (O30).
  [[nodiscard]] std::optional<Tensor> merge_tensor() const;
  /// Tensors in order of first appearance, the merge tensor left out.
  [[nodiscard]] std::vector<Tensor> tensors() const;
  /// Tensors read before they are assigned, in order of first appearance (3E's recurrent nodes).
  [[nodiscard]] std::vector<Tensor> reads_before_writing() const;
  /// The same program over other tensors; each replacement must have the type of what it replaces.
  [[nodiscard]] Program substitute(
      const std::vector<std::pair<Tensor, Tensor>>& replacements) const;
  /// Index notation, one statement a line.
  [[nodiscard]] std::string to_string() const;

 private:
  std::string name_;
  std::vector<Statement> statements_;
};

}  // namespace heddle

template <>
struct std::hash<heddle::Tensor> {
  std::size_t operator()(const heddle::Tensor& tensor) const noexcept {
    return std::hash<std::uint64_t>()(tensor.id());
  }
};
