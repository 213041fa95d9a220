// See loop/wide_access.hpp.
#include "jit/loop/wide_access.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"

namespace heddle::jit {
namespace {

/// Collects the accesses of a lanes loop.
class WideAccesses {
 public:
  WideAccesses(const std::vector<BufferDecl>& buffers, const Stmt& lanes, const BlockTypes& blocks)
      : buffers_(buffers), lanes_(lanes), blocks_(blocks), count_(lanes.to) {}

  std::vector<WideAccess> found() {
    if (lanes_.from != 0 || count_ < 2) return {};
    for (const StmtPtr& stmt : lanes_.body) {
      if (stmt->value) {
        walk(*stmt->value, [this](const Value& v) {
          if (v.kind == ValueKind::load) access(false, v.buffer, v.subscripts, false);
          if (v.kind == ValueKind::local) access(true, v.local, v.subscripts, false);
        });
      }
      if (stmt->kind == StmtKind::store) access(false, stmt->buffer, stmt->subscripts, true);
      if (stmt->kind == StmtKind::assign) access(true, stmt->local, stmt->subscripts, true);
    }
    std::vector<WideAccess> result;
    for (const WideAccess& each : wide_) {
      const Touched& all = touched_.at({each.in_block, each.id});
      if (!all.written || all.one_piece) result.push_back(each);
    }
    return result;
  }

 private:
  struct Touched {
    bool written = false;
    bool one_piece = true;  ///< every access is wide, from the same element on
    Affine first;
  };

  void access(bool in_block, std::uint32_t id, const std::vector<Affine>& at, bool stores) {
    const ArrayType* const type = in_block ? blocks_(id) : &buffers_[id].type;
    if (type == nullptr) return;
    Affine first = flatten(*type, at);
    const auto lane = std::ranges::find_if(first.terms, [this](const AffineTerm& term) {
      return term.kind == AffineTerm::Kind::loop && term.id == lanes_.var;
    });
    // The bools of a block are no bytes that a piece could be made of.
    const bool neighbours = lane != first.terms.end() && lane->coefficient == 1 &&
                            !(in_block && type->dtype == DType::bool_);
    if (lane != first.terms.end()) first.terms.erase(lane);
    const bool wide = neighbours && is_piece(first, type->dtype);
    const auto [known, is_first] = touched_.try_emplace({in_block, id});
    Touched& all = known->second;
    if (is_first) all.first = first;
    all.written = all.written || stores;
    all.one_piece = all.one_piece && wide && all.first == first;
    if (!wide) return;
    const auto same = std::ranges::find_if(wide_, [&](const WideAccess& each) {
      return each.in_block == in_block && each.id == id && each.first == first;
    });
    WideAccess& made = same != wide_.end()
                           ? *same
                           : wide_.emplace_back(WideAccess{in_block, id, type->dtype, first});
    (stores ? made.stores : made.loads) = true;
  }

  /// Whether the lanes' elements from `first` on are one aligned piece.
  [[nodiscard]] bool is_piece(const Affine& first, DType type) const {
    const auto size = static_cast<std::int64_t>(size_of(type));
    if (count_ > wide_bytes_max / size ||
        !std::has_single_bit(static_cast<std::uint64_t>(count_ * size)))
      return false;
    return first.constant % count_ == 0 &&
           std::ranges::all_of(first.terms, [this](const AffineTerm& term) {
             return term.coefficient % count_ == 0;
           });
  }

  const std::vector<BufferDecl>& buffers_;
  const Stmt& lanes_;
  const BlockTypes& blocks_;
  const std::int64_t count_;
  std::map<std::pair<bool, std::uint32_t>, Touched> touched_;
  std::vector<WideAccess> wide_;
};

}  // namespace

Affine WideAccess::piece(std::int64_t count) const {
  Affine made = first;
  made.constant /= count;
  for (AffineTerm& term : made.terms) term.coefficient /= count;
  return made;
}

bool WideAccess::covers(bool of_block, std::uint32_t of, const Affine& offset,
                        std::int64_t count) const {
  return of_block == in_block && of == id && offset.terms == first.terms &&
         offset.constant >= first.constant && offset.constant - first.constant < count;
}

std::vector<WideAccess> wide_accesses(const std::vector<BufferDecl>& buffers, const Stmt& lanes,
                                      const BlockTypes& blocks) {
  return WideAccesses(buffers, lanes, blocks).found();
}

}  // namespace heddle::jit
