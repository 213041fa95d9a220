// Slices: the part of each buffer that one run of a kernel touches, where static indices choose it
// or loops go over a part. One thread.
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
  /// `loop` outlives it.
  explicit Slices(const Loop& loop);

  [[nodiscard]] bool none() const noexcept;
  /// None: any of it may be touched. Whether it is overwritten is not said.
  [[nodiscard]] const std::optional<Slice>& of(BufferId id) const { return slices_[id]; }
  /// Whether its elements are all that lie between its ends.
  [[nodiscard]] bool in_one_piece(BufferId id) const;
  /// The same statements over buffers that are just the slices, so what they do to these is what
  /// the kernel does to those, whatever the static indices are.
  [[nodiscard]] Loop seen_from_them() const;

 private:
  using StaticTerms = std::vector<AffineTerm>;
  /// What accesses of one buffer have in common.
  struct Part {
    bool whole = false;                // static indices move them differently, or it is zeroed
    std::vector<StaticTerms> moved{};  // axis by axis
    Box box{};                         // the least that has them all, before it is moved
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
  std::vector<std::optional<Slice>> slices_;  // likewise
  std::map<VarId, std::pair<std::int64_t, std::int64_t>> vars_;
};

}  // namespace heddle::jit
