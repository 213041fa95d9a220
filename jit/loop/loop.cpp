// Builders of loop IR nodes, affine arithmetic and structural equality. Pure; any thread.
#include "jit/loop/loop.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "heddle/status.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {
namespace {

[[noreturn]] void impossible(const char* text) { throw Error(ErrorCode::internal, text); }

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) impossible("affine index: sum leaves 64 bits");
  return sum;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) impossible("affine index: product leaves 64 bits");
  return product;
}

ValuePtr share(Value value) {
  count_step();
  return std::make_shared<const Value>(std::move(value));
}
StmtPtr share(Stmt stmt) {
  count_step();
  return std::make_shared<const Stmt>(std::move(stmt));
}

bool equal_ptr(const ValuePtr& a, const ValuePtr& b) { return a == b || (a && b && equal(*a, *b)); }

bool equal_block(const Block& a, const Block& b) {
  return std::ranges::equal(a, b, [](const StmtPtr& x, const StmtPtr& y) { return equal(*x, *y); });
}

}  // namespace

ValuePtr make_constant(const Scalar& scalar) {
  Value value;
  value.kind = ValueKind::constant;
  value.dtype = scalar.dtype;
  value.scalar = scalar;
  if (std::isnan(scalar.f)) value.scalar.f = std::numeric_limits<double>::quiet_NaN();
  return share(std::move(value));
}

ValuePtr make_load(BufferId buffer, DType dtype, std::vector<Affine> subscripts) {
  Value value;
  value.kind = ValueKind::load;
  value.dtype = dtype;
  value.buffer = buffer;
  value.subscripts = std::move(subscripts);
  return share(std::move(value));
}

ValuePtr make_local(LocalId local, DType dtype, std::vector<Affine> subscripts) {
  Value value;
  value.kind = ValueKind::local;
  value.dtype = dtype;
  value.local = local;
  value.subscripts = std::move(subscripts);
  return share(std::move(value));
}

ValuePtr make_embed(Affine index) {
  Value value;
  value.kind = ValueKind::embed;
  value.dtype = DType::i64;
  value.index = std::move(index);
  return share(std::move(value));
}

ValuePtr make_op(Op op, std::vector<ValuePtr> args) {
  std::vector<DType> types;
  types.reserve(args.size());
  for (const ValuePtr& arg : args) types.push_back(arg->dtype);
  const auto typing = type_op(op, types);
  if (!typing) impossible("operation on operands without a common type");
  for (std::size_t k = 0; k < args.size(); ++k)
    args[k] = make_cast(std::move(args[k]), operand_type(op, typing->operands, k));
  Value value;
  value.kind = ValueKind::op;
  value.dtype = typing->result;
  value.op = op;
  value.args = std::move(args);
  return share(std::move(value));
}

ValuePtr make_cast(ValuePtr from, DType to) {
  if (from->dtype == to) return from;
  if (from->kind == ValueKind::constant) return make_constant(convert(from->scalar, to));
  Value value;
  value.kind = ValueKind::cast;
  value.dtype = to;
  value.args = {std::move(from)};
  return share(std::move(value));
}

StmtPtr make_comment(std::string text) { return make_comment(std::move(text), {}); }

StmtPtr make_comment(std::string text, std::string order) {
  Stmt stmt;
  stmt.kind = StmtKind::comment;
  stmt.text = std::move(text);
  std::ranges::replace_if(
      stmt.text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  stmt.order = std::move(order);
  return share(std::move(stmt));
}

StmtPtr make_loop(VarId var, std::int64_t from, std::int64_t to, Block body, LoopMark mark) {
  Stmt stmt;
  stmt.kind = StmtKind::loop;
  stmt.var = var;
  stmt.from = from;
  stmt.to = to;
  stmt.mark = mark;
  stmt.body = std::move(body);
  return share(std::move(stmt));
}

StmtPtr make_at(VarId var, std::int64_t from, std::int64_t to, ValuePtr value, bool nearest,
                Block body) {
  Stmt stmt;
  stmt.kind = StmtKind::at;
  stmt.var = var;
  stmt.from = from;
  stmt.to = to;
  stmt.value = std::move(value);
  stmt.nearest = nearest;
  stmt.body = std::move(body);
  return share(std::move(stmt));
}

StmtPtr make_zero(BufferId buffer) {
  Stmt stmt;
  stmt.kind = StmtKind::zero;
  stmt.buffer = buffer;
  return share(std::move(stmt));
}

StmtPtr make_store(BufferId buffer, std::vector<Affine> subscripts, ValuePtr value, bool stream) {
  Stmt stmt;
  stmt.kind = StmtKind::store;
  stmt.buffer = buffer;
  stmt.subscripts = std::move(subscripts);
  stmt.value = std::move(value);
  stmt.stream = stream;
  return share(std::move(stmt));
}

StmtPtr make_atomic_store(BufferId buffer, std::vector<Affine> subscripts, ValuePtr value) {
  Stmt stmt = *make_store(buffer, std::move(subscripts), std::move(value));
  stmt.atomic = true;
  return share(std::move(stmt));
}

StmtPtr make_declare(LocalId local, ValuePtr value, Dims dims) {
  Stmt stmt;
  stmt.kind = StmtKind::declare;
  stmt.local = local;
  stmt.dims = std::move(dims);
  stmt.value = std::move(value);
  return share(std::move(stmt));
}

StmtPtr make_assign(LocalId local, ValuePtr value, std::vector<Affine> subscripts) {
  Stmt stmt;
  stmt.kind = StmtKind::assign;
  stmt.local = local;
  stmt.subscripts = std::move(subscripts);
  stmt.value = std::move(value);
  return share(std::move(stmt));
}

StmtPtr make_prefetch(BufferId buffer, std::vector<Affine> subscripts, Prefetch next) {
  Stmt stmt;
  stmt.kind = StmtKind::prefetch;
  stmt.buffer = buffer;
  stmt.subscripts = std::move(subscripts);
  stmt.next = next;
  return share(std::move(stmt));
}

Affine affine_var(VarId var, std::int64_t coefficient) {
  if (coefficient == 0) return {};
  return {0, {{AffineTerm::Kind::loop, var, coefficient}}};
}

Affine affine_static(StaticId id, std::int64_t coefficient) {
  if (coefficient == 0) return {};
  return {0, {{AffineTerm::Kind::static_index, id, coefficient}}};
}

Affine affine_add(const Affine& a, const Affine& b) {
  Affine sum = a;
  sum.constant = checked_add(a.constant, b.constant);
  const auto key = [](const AffineTerm& t) { return std::tuple(t.kind, t.id); };
  for (const AffineTerm& term : b.terms) {
    const auto at = std::ranges::lower_bound(sum.terms, key(term), {}, key);
    if (at != sum.terms.end() && key(*at) == key(term)) {
      at->coefficient = checked_add(at->coefficient, term.coefficient);
    } else {
      sum.terms.insert(at, term);
    }
  }
  std::erase_if(sum.terms, [](const AffineTerm& t) { return t.coefficient == 0; });
  return sum;
}

Affine affine_scale(const Affine& a, std::int64_t factor) {
  if (factor == 0) return {};
  Affine scaled = a;
  scaled.constant = checked_mul(a.constant, factor);
  for (AffineTerm& term : scaled.terms) term.coefficient = checked_mul(term.coefficient, factor);
  return scaled;
}

std::int64_t affine_coefficient(const Affine& a, VarId var) noexcept {
  for (const AffineTerm& term : a.terms) {
    if (term.kind == AffineTerm::Kind::loop && term.id == var) return term.coefficient;
  }
  return 0;
}

bool moves_with(const Affine& index, VarId var) noexcept {
  return affine_coefficient(index, var) != 0;
}

bool moves_with(const std::vector<Affine>& subscripts, VarId var) noexcept {
  return std::ranges::any_of(subscripts, [var](const Affine& at) { return moves_with(at, var); });
}

bool equal(const Value& a, const Value& b) {
  count_step();
  if (&a == &b) return true;
  return a.kind == b.kind && a.dtype == b.dtype && a.scalar == b.scalar && a.buffer == b.buffer &&
         a.subscripts == b.subscripts && a.local == b.local && a.index == b.index && a.op == b.op &&
         std::ranges::equal(a.args, b.args, equal_ptr);
}

bool equal(const Stmt& a, const Stmt& b) {
  if (&a == &b) return true;
  return a.kind == b.kind && a.text == b.text && a.var == b.var && a.from == b.from &&
         a.to == b.to && a.mark == b.mark && a.nearest == b.nearest && a.buffer == b.buffer &&
         a.subscripts == b.subscripts && a.stream == b.stream && a.atomic == b.atomic &&
         a.next == b.next && a.dims == b.dims && a.local == b.local &&
         equal_ptr(a.value, b.value) && equal_block(a.body, b.body);
}

bool operator==(const Loop& a, const Loop& b) {
  return a.buffers == b.buffers && a.statics == b.statics && equal_block(a.body, b.body);
}

}  // namespace heddle::jit
