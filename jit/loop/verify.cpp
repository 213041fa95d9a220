// The verifier of loop kernels. Pure; any thread.
#include "jit/loop/verify.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

#include "jit/value/int128.hpp"

#include "jit/loop/accumulation.hpp"
#include "jit/loop/address.hpp"
#include "jit/loop/interval.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {
namespace {

/// Thrown inside this file only: the first broken rule ends the walk.
struct Broken {
  std::string text;
};

// Not inlined: its buffers would be in every frame of deeply nested statements.
template <class... A>
[[noreturn, gnu::noinline]] void broken(fmt::format_string<A...> format, A&&... args) {
  throw Broken{fmt::format(format, std::forward<A>(args)...)};
}

struct Range {
  std::int64_t from, to;  // half-open
};

/// The scalar as its dtype holds it.
Scalar canonical(const Scalar& s) {
  return is_floating(s.dtype) ? Scalar::of_float(s.dtype, s.f) : Scalar::of_int(s.dtype, s.i);
}

class Verifier {
 public:
  explicit Verifier(const Loop& loop) : loop_(loop) {}

  void run() {
    std::size_t merges = 0;
    for (std::size_t k = 0; k < loop_.buffers.size(); ++k) {
      if (!loop_.buffers[k].type.num_bytes()) {
        broken("buffer t{} {}: its bytes do not fit 63 bits, or an extent is negative", k,
               loop_.buffers[k].type.to_string());
      }
      if (loop_.buffers[k].role == Role::merge) ++merges;
    }
    if (merges > 1) broken("{} merge buffers (at most one)", merges);
    for (std::size_t k = 0; k < loop_.statics.size(); ++k) {
      if (loop_.statics[k].range && *loop_.statics[k].range < 0)
        broken("static s{}: negative range", k);
    }
    block(loop_.body);
  }

 private:
  void block(const Block& body) {
    std::vector<LocalId> mine;  // go out of scope at the end of the block
    if (++depth_ > loop_depth_max + 1) broken("loops nest deeper than {}", loop_depth_max);
    for (const StmtPtr& stmt : body) statement(*stmt, mine);
    --depth_;
    for (const LocalId local : mine) {
      if (const ArrayType& type = locals_.at(local); !type.dims.empty())
        block_bytes_ -= *type.num_bytes();
      locals_.erase(local);
    }
  }

  void statement(const Stmt& stmt, std::vector<LocalId>& mine) {
    count_step();
    switch (stmt.kind) {
      case StmtKind::comment:
        return;
      case StmtKind::loop: {
        if (stmt.from > stmt.to)
          broken("loop i{}: bounds {}..{} run backwards", stmt.var, stmt.from, stmt.to);
        if (!seen_vars_.insert(stmt.var).second)
          broken("loop variable i{} is declared twice", stmt.var);
        bind(stmt);
        return;
      }
      case StmtKind::at:
        value(*stmt.value);
        if (!is_integer(stmt.value->dtype))
          broken("position i{} is {} (expected an integer; cast it)", stmt.var,
                 name(stmt.value->dtype));
        if (stmt.from > stmt.to)
          broken("position i{}: bounds {}..{} run backwards", stmt.var, stmt.from, stmt.to);
        if (stmt.nearest && stmt.from == stmt.to)
          broken("position i{}: nothing in {}..{} is nearest", stmt.var, stmt.from, stmt.to);
        if (!seen_vars_.insert(stmt.var).second)
          broken("variable i{} of a position is declared twice", stmt.var);
        bind(stmt);
        return;
      case StmtKind::zero:
        writable(stmt.buffer, "zero");
        return;
      case StmtKind::prefetch:
        if (stmt.next == Prefetch::store) writable(stmt.buffer, "prefetchw");
        if (stmt.next == Prefetch::store) {
          buffer_subscripts(stmt.buffer, stmt.subscripts);
        } else {
          load_subscripts(stmt.buffer, stmt.subscripts, 1);
        }
        return;
      case StmtKind::store:
        writable(stmt.buffer, "store");
        buffer_subscripts(stmt.buffer, stmt.subscripts);
        value(*stmt.value);
        same_type(stmt.value->dtype, loop_.buffers[stmt.buffer].type.dtype, "store to", 't',
                  stmt.buffer);
        if (stmt.atomic && !accumulation_of(stmt))
          broken("t{} is stored atomically, but not by t{}[..] = op(t{}[..], term)", stmt.buffer,
                 stmt.buffer, stmt.buffer);
        return;
      case StmtKind::declare:
        value(*stmt.value);
        if (!seen_locals_.insert(stmt.local).second)
          broken("local x{} is declared twice", stmt.local);
        locals_[stmt.local] = {stmt.value->dtype, stmt.dims};
        if (!stmt.dims.empty()) block_of(stmt);
        mine.push_back(stmt.local);
        return;
      case StmtKind::assign: {
        const auto at = locals_.find(stmt.local);
        if (at == locals_.end())
          broken("assignment to x{}, which is not declared here", stmt.local);
        subscripts('x', stmt.local, at->second, stmt.subscripts);
        value(*stmt.value);
        same_type(stmt.value->dtype, at->second.dtype, "assignment to", 'x', stmt.local);
        return;
      }
    }
  }

  /// Verifies the body, with the variable in scope.
  void bind(const Stmt& stmt) {
    vars_[stmt.var] = {stmt.from, stmt.to};
    const bool was_empty = empty_;
    empty_ = empty_ || stmt.from == stmt.to;
    block(stmt.body);
    empty_ = was_empty;
    vars_.erase(stmt.var);
  }

  static void same_type(DType found, DType expected, const char* what, char prefix,
                        std::uint32_t id) {
    if (found == expected) return;
    broken("{} {}{}: value of {} (expected {})", what, prefix, id, name(found), name(expected));
  }

  const BufferDecl& known(BufferId id) const {
    if (id >= loop_.buffers.size()) broken("buffer t{} is not declared", id);
    return loop_.buffers[id];
  }

  void writable(BufferId id, const char* what) const {
    const Role role = known(id).role;
    if (role == Role::input || role == Role::merge) {
      broken("{} to t{}, which is {} buffer", what, id,
             role == Role::input ? "an input" : "the merge");
    }
  }

  void load_subscripts(BufferId id, const std::vector<Affine>& at, int beyond) const {
    const ArrayType& type = known(id).type;
    if (!is_flat(type.dims, at)) return subscripts('t', id, type, at, beyond);
    affine(at[0]);
    inside('t', id, {type.dtype, {*type.num_elements()}}, 0, at[0], beyond);
  }

  void buffer_subscripts(BufferId id, const std::vector<Affine>& at) const {
    subscripts('t', id, known(id).type, at);
  }

  /// Checks subscripts, which may lie up to `beyond` extents beyond either end of their axes.
  void subscripts(char prefix, std::uint32_t id, const ArrayType& type,
                  const std::vector<Affine>& at, int beyond = 0) const {
    if (at.size() != type.dims.size())
      broken("{}{} takes {} subscripts, got {}", prefix, id, type.dims.size(), at.size());
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      affine(at[axis]);
      inside(prefix, id, type, axis, at[axis], beyond);
    }
  }

  /// Checks that a local block has elements, and that all blocks fit the stack.
  void block_of(const Stmt& declare) {
    for (const std::int64_t extent : declare.dims) {
      if (extent < 1) broken("local block x{} has an extent of {}", declare.local, extent);
    }
    const auto bytes = locals_.at(declare.local).num_bytes();
    if (!bytes || *bytes > block_bytes_max - block_bytes_) {
      broken("local block x{} {} takes the blocks that are in scope beyond {} bytes", declare.local,
             locals_.at(declare.local).to_string(), block_bytes_max);
    }
    block_bytes_ += *bytes;
  }

  /// Checks that variables are declared, and the index is canonical.
  void affine(const Affine& a) const {
    const AffineTerm* before = nullptr;
    for (const AffineTerm& term : a.terms) {
      if (term.coefficient == 0) broken("affine term with coefficient 0");
      if (before != nullptr &&
          !(before->kind < term.kind || (before->kind == term.kind && before->id < term.id))) {
        broken("affine terms out of order");
      }
      before = &term;
      if (term.kind == AffineTerm::Kind::loop && !vars_.contains(term.id))
        broken("i{} is neither a loop nor a position around here", term.id);
      if (term.kind == AffineTerm::Kind::static_index && term.id >= loop_.statics.size()) {
        broken("static s{} is not declared", term.id);
      }
    }
  }

  /// Checks that a subscript is in range for all loop values. For static terms the signature's
  /// bounds decide, see make_signature().
  void inside(char prefix, std::uint32_t id, const ArrayType& type, std::size_t axis,
              const Affine& a, int beyond) const {
    if (empty_) return;
    using Ends = std::optional<std::pair<std::int64_t, std::int64_t>>;
    const auto reached = reach(a, [this](const AffineTerm& term) {
      if (term.kind == AffineTerm::Kind::static_index) return Ends();
      const Range range = vars_.at(term.id);
      return Ends({range.from, range.to - 1});
    });
    // Elements of a local block must be known when the kernel is compiled.
    if (!reached && prefix == 'x') broken("x{} is subscripted by a static index", id);
    const Int128 extent = type.dims[axis];
    if (!reached ||
        (reached->lowest >= -beyond * extent && reached->highest < (1 + beyond) * extent))
      return;
    broken("axis {} of {}{} {} is subscripted from {} to {}", axis, prefix, id, type.to_string(),
           narrow(reached->lowest), narrow(reached->highest));
  }

  void value(const Value& v, int level = 0) const {
    count_step();
    if (level > value_depth_max) broken("a value nests deeper than {}", value_depth_max);
    switch (v.kind) {
      case ValueKind::constant:
        if (v.scalar.dtype != v.dtype)
          broken("constant of {} typed {}", name(v.scalar.dtype), name(v.dtype));
        if (const Scalar held = make_constant(canonical(v.scalar))->scalar; !(held == v.scalar))
          broken("constant is no value of {}", name(v.dtype));
        return;
      case ValueKind::load:
        load_subscripts(v.buffer, v.subscripts, 0);
        same_type(v.dtype, loop_.buffers[v.buffer].type.dtype, "load from", 't', v.buffer);
        return;
      case ValueKind::local: {
        const auto at = locals_.find(v.local);
        if (at == locals_.end()) broken("x{} is read where it is not declared", v.local);
        subscripts('x', v.local, at->second, v.subscripts);
        same_type(v.dtype, at->second.dtype, "read of", 'x', v.local);
        return;
      }
      case ValueKind::embed:
        affine(v.index);
        return;
      case ValueKind::op:
        operation(v, level);
        return;
      case ValueKind::cast:
        if (v.args.size() != 1)
          broken("conversion to {} of {} values", name(v.dtype), v.args.size());
        value(*v.args[0], level + 1);
        return;
    }
  }

  void operation(const Value& v, int level) const {
    std::vector<DType> types;
    for (const ValuePtr& arg : v.args) {
      value(*arg, level + 1);
      if (is_storage_only(arg->dtype))
        broken("'{}' on {} (cast to f32 first)", op_info(v.op).name, name(arg->dtype));
      types.push_back(arg->dtype);
    }
    const auto typing = type_op(v.op, types);
    if (!typing) broken("'{}' has no meaning for its operands", op_info(v.op).name);
    if (v.dtype != typing->result) {
      broken("result of '{}' is {} (expected {})", op_info(v.op).name, name(v.dtype),
             name(typing->result));
    }
    for (std::size_t k = 0; k < types.size(); ++k) {
      if (const DType wanted = operand_type(v.op, typing->operands, k); types[k] != wanted) {
        broken("operand {} of '{}' is {} (expected {})", k, op_info(v.op).name, name(types[k]),
               name(wanted));
      }
    }
  }

  const Loop& loop_;
  std::map<VarId, Range> vars_;
  std::map<LocalId, ArrayType> locals_;
  std::set<VarId> seen_vars_;
  std::set<LocalId> seen_locals_;
  std::int64_t block_bytes_ = 0;
  int depth_ = 0;
  bool empty_ = false;  // inside a loop without iterations
};

}  // namespace

Status verify(const Loop& loop) {
  try {
    Verifier(loop).run();
    for (const std::string& rule : {broken_mark(loop.body), broken_parallel_loop(loop)}) {
      if (!rule.empty()) broken("{}", rule);
    }
  } catch (const Broken& rule) {
    return Status(ErrorCode::invalid_argument, "illegal loop kernel: " + rule.text);
  }
  return {};
}

VerifiedLoop::VerifiedLoop(Loop loop) {
  throw_if_failed(verify(loop));
  loop_ = std::make_shared<const Loop>(std::move(loop));
}

VerifiedLoop verified_after(std::string_view stage, const Loop& loop, const VerifiedLoop& before) {
  if (before && *before == loop) return before;
  try {
    return VerifiedLoop(loop);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw Error(ErrorCode::internal, fmt::format("{} made an illegal kernel", stage),
                error.status());
  }
}

}  // namespace heddle::jit
