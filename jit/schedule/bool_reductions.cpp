// See bool_reductions.hpp.
#include "jit/schedule/bool_reductions.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace heddle::jit {
namespace {

/// A bool that a block declares, and what its statements do with it.
class BoolSum {
 public:
  explicit BoolSum(const Stmt& declare) : local_(declare.local) {
    fits_ = declare.kind == StmtKind::declare && declare.dims.empty() &&
            declare.value->dtype == DType::bool_ && declare.value->kind == ValueKind::constant;
  }

  [[nodiscard]] bool is_declared() const { return fits_; }
  /// True if the statements behind the declaration gather tests.
  [[nodiscard]] bool suits(const Block& behind) {
    walk(behind, [this](const Stmt& stmt) { add(stmt); });
    return fits_ && op_ && size_ != 0;
  }

  [[nodiscard]] StmtPtr declared(const Stmt& declare) const {
    return with_value(
        declare, number(equal(*declare.value, *make_constant(Scalar::of_int(DType::bool_, 1)))));
  }
  [[nodiscard]] Block made(const Block& body) const {
    Block made;
    for (const StmtPtr& stmt : body) {
      StmtPtr copy = stmt;
      if (const ValuePtr term = term_of(*stmt)) {
        const ValuePtr one = make_op(Op::where, {widened(term), number(true), number(false)});
        copy = with_value(
            *stmt, make_op(*op_ == Op::or_ ? Op::max : Op::min, {make_local(local_, type()), one}));
      } else if (stmt->value) {
        copy = with_value(*stmt, rebuild(stmt->value, [this](ValuePtr v) {
          return is_own(*v) ? make_op(Op::ne, {make_local(local_, type()), number(false)}) : v;
        }));
      }
      made.push_back(copy->body.empty() ? copy : with_body(*copy, this->made(copy->body)));
    }
    return made;
  }

 private:
  [[nodiscard]] bool is_own(const Value& v) const {
    return v.kind == ValueKind::local && v.local == local_;
  }
  [[nodiscard]] bool reads_own(const Value& value) const {
    bool found = false;
    walk(value, [&](const Value& v) { found = found || is_own(v); });
    return found;
  }

  /// What the statement gathers; null: it is no gathering statement.
  [[nodiscard]] ValuePtr term_of(const Stmt& stmt) const {
    if (stmt.kind != StmtKind::assign || stmt.local != local_) return nullptr;
    const Value& v = *stmt.value;
    if (v.kind != ValueKind::op || (v.op != Op::or_ && v.op != Op::and_)) return nullptr;
    const std::size_t term = is_own(*v.args[0]) ? 1 : 0;
    return is_own(*v.args[1 - term]) && !reads_own(*v.args[term]) ? v.args[term] : nullptr;
  }

  void add(const Stmt& stmt) {
    if (stmt.kind != StmtKind::assign || stmt.local != local_) return;
    const ValuePtr term = term_of(stmt);
    fits_ = fits_ && term && (!op_ || *op_ == stmt.value->op);
    if (!fits_) return;
    op_ = stmt.value->op;
    walk(*term, [this](const Value& v) {
      if (v.kind == ValueKind::local) fits_ = false;
      if (v.kind != ValueKind::load) return;
      const std::size_t size = std::max<std::size_t>(4, size_of(v.dtype));
      fits_ = fits_ && v.dtype != DType::bool_ && (is_integer(v.dtype) || size_of(v.dtype) >= 4) &&
              (size_ == 0 || size_ == size);
      size_ = size;
    });
  }

  /// The test, of integers of 32 bits where these are narrower: vectors compare these.
  [[nodiscard]] static ValuePtr widened(const ValuePtr& test) {
    return rebuild(test, [](ValuePtr v) {
      const bool compares = v->kind == ValueKind::op && (v->op == Op::lt || v->op == Op::le ||
                                                         v->op == Op::eq || v->op == Op::ne);
      if (!compares || !is_integer(v->args[0]->dtype) || size_of(v->args[0]->dtype) >= 4) return v;
      return make_op(v->op, {make_cast(v->args[0], DType::i32), make_cast(v->args[1], DType::i32)});
    });
  }

  [[nodiscard]] DType type() const { return size_ == 4 ? DType::i32 : DType::i64; }
  [[nodiscard]] ValuePtr number(bool set) const {
    return make_constant(Scalar::of_int(type(), set ? 1 : 0));
  }

  const LocalId local_;
  bool fits_ = true;
  std::optional<Op> op_;
  std::size_t size_ = 0;  ///< of the tested elements
};

}  // namespace

Block with_integers_for_bools(const Block& body) {
  Block made;
  for (std::size_t k = 0; k < body.size(); ++k) {
    const StmtPtr& stmt = body[k];
    if (BoolSum sum(*stmt); sum.is_declared()) {
      const Block behind(body.begin() + static_cast<std::ptrdiff_t>(k) + 1, body.end());
      if (sum.suits(behind)) {
        made.push_back(sum.declared(*stmt));
        append(made, with_integers_for_bools(sum.made(behind)));
        return made;
      }
    }
    made.push_back(stmt->body.empty() ? stmt
                                      : with_body(*stmt, with_integers_for_bools(stmt->body)));
  }
  return made;
}

}  // namespace heddle::jit
