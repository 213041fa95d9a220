// Tensors: declarations, memory modes, subscripted accesses, and the statements made by assigning
// to an access. Shared handles on immutable or internally locked state. Thread-safe. A move copies
// the handle, so no handle is ever empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/expr.hpp"
#include "heddle/host_array.hpp"
#include "heddle/types.hpp"

namespace heddle::jit {
struct TensorState;
struct StatementNode;
}  // namespace heddle::jit

#pragma GCC visibility push(default)
namespace heddle {

/// Where a tensor's values live while routines run. If a program assigns and then reads a tensor
/// without a requested mode, the tensor may be recomputed where it is read, or live for one run
/// only; it cannot be read back then: request on_device to keep it.
///
/// Two requests for a tensor combine into a single mode, in either order:
///
///   the one                the other                                   gives
///   unset                  any                                         the other
///   never_virtual          local, device_only, on_device,              the other
///                          materialized, hosted_*
///   device_only            local, on_device                            the other
///   device_only            materialized                                on_device
///   materialized           on_device, hosted_*                         the other
///   hosted_nonconstant     hosted_changed_on_devices, hosted_volatile  the other
///   effectively_constant   virtual_                                    virtual_
///   effectively_constant   never_virtual, materialized,                hosted_constant
///                          hosted_constant
///
/// Any other pair clashes: the second request is refused, naming both places.
enum class MemoryMode : std::uint8_t {
  unset,  ///< no request: decided per program
  /// never changes: inlined, or a hosted constant; not accepted by set_host()
  effectively_constant,
  virtual_,            ///< never stored: recomputed where it is read
  never_virtual,       ///< stored somehow
  local,               ///< scratch memory of one run
  device_only,         ///< local or on_device
  on_device,           ///< persistent in device memory
  materialized,        ///< on_device or hosted
  hosted_constant,     ///< host storage, never changed
  hosted_nonconstant,  ///< host storage, changed by host or devices (still open which)
  hosted_changed_on_devices,
  hosted_volatile,  ///< host storage that the host changes between runs
};
[[nodiscard]] std::string_view name(MemoryMode mode) noexcept;

/// One statement of a program, made by assigning to a tensor access. A statement has no effect by
/// itself: append it to a program.
class [[nodiscard("a statement does nothing until it is appended: program << (...)")]] Statement {
 public:
  Statement(const Statement&) = default;
  Statement& operator=(const Statement&) = default;

 private:
  friend struct Inside;
  explicit Statement(std::shared_ptr<const jit::StatementNode> node) noexcept
      : state_(std::move(node)) {}
  std::shared_ptr<const jit::StatementNode> state_;
};

class Tensor;

/// A subscripted tensor: an Expr if read, the target of a Statement if assigned. Accumulations
/// reduce over the indices missing on the left and keep the target's previous value.
class Access {
 public:
  Access(const Access&) = default;
  operator Expr() const;  // NOLINT: reads the element
  [[nodiscard]] const Tensor& tensor() const noexcept { return *tensor_; }
  [[nodiscard]] const std::vector<Subscript>& subscripts() const noexcept { return subscripts_; }

  // `=` converts any value to the tensor's type, as cast() does. Accumulations, and `=` of a
  // reduction, compute every step in the common type of target and value: if there is none (u64
  // with a signed type), they throw invalid_argument, naming the statement, what it reads, and the
  // types. An integer literal that does not fit the tensor's type is also invalid_argument.
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
/// storage. A shared handle: copies are the same tensor. Comparison and hash use identity.
class Tensor {
 public:
  /// Throws invalid_argument for a negative extent, a size that overflows 63 bits, or a number that
  /// is no DType.
  Tensor(std::string label, DType dtype, Dims dims);
  /// A tensor with host storage: type and values come from `host`. `mode` must be a hosted one, as
  /// in set_host().
  Tensor(std::string label, HostArray host, MemoryMode mode = MemoryMode::hosted_nonconstant,
         std::source_location where = std::source_location::current());
  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;

  [[nodiscard]] std::uint64_t id() const noexcept;
  [[nodiscard]] const std::string& label() const noexcept;
  [[nodiscard]] const ArrayType& type() const noexcept;
  [[nodiscard]] DType dtype() const noexcept { return type().dtype; }
  [[nodiscard]] const Dims& dims() const noexcept { return type().dims; }
  [[nodiscard]] std::int64_t num_elements() const noexcept { return *type().num_elements(); }
  [[nodiscard]] std::int64_t num_bytes() const noexcept { return *type().num_bytes(); }

  /// Refines the memory mode, for later compiles. A clash throws invalid_argument naming the two
  /// places, and leaves the mode unchanged. Thread-safe.
  const Tensor& set_mode(MemoryMode mode,
                         std::source_location where = std::source_location::current()) const;
  [[nodiscard]] MemoryMode mode() const;
  /// The place that requested the present mode, "file:line"; empty while unset.
  [[nodiscard]] std::string mode_provenance() const;

  /// Sets the host storage, for later compiles; its type must equal type(). Also requests `mode`,
  /// which must be a hosted mode. Throws Error(invalid_argument) for other modes, including
  /// effectively_constant, and for a different type.
  const Tensor& set_host(HostArray host, MemoryMode mode = MemoryMode::hosted_nonconstant,
                         std::source_location where = std::source_location::current()) const;
  /// The host storage; nullopt if there is none.
  [[nodiscard]] std::optional<HostArray> host() const;

  /// Subscripts: indices, affine sums of indices, numbers of any integer type, and computed
  /// positions, at(e). Using the access throws invalid_argument if the number of subscripts is not
  /// the rank, or if their numbers do not fit 64 bits.
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
  friend struct Inside;
  std::shared_ptr<jit::TensorState> state_;
};

/// Reads of the merge buffer: merge(g)(i, j) is element (i, j) of the tensor in the device's merge
/// buffer, which must be `g` when the routine runs (D7). One merge tensor per program (J5).
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

}  // namespace heddle

template <>
struct std::hash<heddle::Tensor> {
  std::size_t operator()(const heddle::Tensor& tensor) const noexcept {
    return std::hash<std::uint64_t>()(tensor.id());
  }
};
#pragma GCC visibility pop
