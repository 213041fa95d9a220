// Slices: the part of each buffer that a run of a kernel touches, where static indices choose the
// part or loops go over a part. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "jit/loop/boxes.hpp"
#include "jit/loop/interface.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {

class Slices {
 public:
  /// `loop` must outlive the object.
  explicit Slices(const Loop& loop);

  [[nodiscard]] bool none() const noexcept;
  /// The slice of a buffer; none: any element may be touched. `overwritten` is not set.
  [[nodiscard]] const std::optional<Slice>& of(BufferId id) const { return slices_[id]; }
  /// True if the touched elements are all elements between the slice's ends.
  [[nodiscard]] bool in_one_piece(BufferId id) const;
  /// The same statements over buffers that consist only of the slices: the statements access these
  /// buffers as the kernel accesses the slices, for all static indices.
  [[nodiscard]] Loop seen_from_them() const;

 private:
  using StaticTerms = std::vector<AffineTerm>;
  /// Common properties of all accesses to a buffer.
  struct Part {
    bool whole = false;  // static indices move accesses differently, or a zero touches it
    std::vector<StaticTerms> moved{};  // axis by axis
    Box box{};                         // smallest box around all accesses, before it is moved
  };

  void block(const Block& block);
  void statement(const Stmt& stmt);
  void value(const Value& v);
  void access(BufferId id, const std::vector<Affine>& subscripts);
  [[nodiscard]] bool is_slice(BufferId id) const;
  [[nodiscard]] std::optional<Slice> slice(BufferId id) const;
  [[nodiscard]] std::vector<Affine> within(BufferId id,
                                           const std::vector<Affine>& subscripts) const;
  [[nodiscard]] Block seen(const Block& block) const;
  [[nodiscard]] ValuePtr seen(const ValuePtr& value) const;

  const Loop& loop_;
  std::vector<Part> parts_;                   // by buffer
  std::vector<std::optional<Slice>> slices_;  // by buffer
  std::map<VarId, std::pair<std::int64_t, std::int64_t>> vars_;
};

}  // namespace heddle::jit
