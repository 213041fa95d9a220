// See emit/c.hpp. The C is meant to be read: kernels keep the loops, names and order of the loop
// text, one line per statement; operations that C spells exactly are operators, all others are
// calls of primitive functions (value/primitives.hpp).
#include "jit/emit/c.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "jit/emit/c_lanes.hpp"
#include "jit/emit/c_prelude.hpp"
#include "jit/emit/c_primitives.hpp"
#include "jit/emit/workarounds.hpp"
#include "jit/loop/address.hpp"
#include "jit/lower/stop_checks.hpp"
#include "jit/system/limits.hpp"
#include "jit/vector/lane_prims.hpp"

namespace heddle::jit {
namespace {

/// Deeper expressions are cut into temporaries: clang refuses more than 256 brackets.
constexpr int expression_depth_max = 40;

struct Text {
  std::string text;  // needs no parentheses
  int depth = 0;
  TermFacts facts = 0;
};

class CKernel {
 public:
  CKernel(const KernelSource& kernel, bool trace, CPrimitives& primitives, CVectors& vectors,
          std::string& out)
      : kernel_(kernel),
        loop_(*kernel.loop),
        nested_sums_(nested_sums(loop_.body)),
        hidden_(loop_.body),
        stops_(stop_checks(loop_)),
        trace_(trace),
        primitives_(primitives),
        plan_(lane_plan_of(kernel, vectors.target())),
        lanes_(loop_, *plan_, vectors,
               {[this](const std::string& text) { line("{}", text); },
                [this](const Value& v) { return value(v); },
                [](const Affine& a) { return affine(a); }}),
        scalar_loops_(loop_, *plan_),
        out_(out) {}
  CKernel(const CKernel&) = delete;
  CKernel& operator=(const CKernel&) = delete;

  void emit() {
    out_ += fmt::format("\nEXPORT void {}(const heddle_kernel_args* args) {{\n",
                        kernel_symbol(kernel_.name));
    for (std::size_t k = 0; k < loop_.buffers.size(); ++k) buffer(k);
    for (std::size_t k = 0; k < loop_.statics.size(); ++k) {
      line("const i64 s{} = args->statics[{}];{}", k, k, name_comment(kernel_.names.statics, k));
    }
    if (hidden_.any()) {
      line("u64 zero = 0;");
      line("__asm__(\"\" : \"+r\"(zero));");
    }
    if (stops_.any) {
      line("const u32 never = 0;");
      line("const u32* const stop = args->stop ? args->stop : &never;");
    }
    const bool split = has_parallel_loops(loop_);
    if (!split) line("if (args->part != 0) return;");
    for (const StmtPtr& stmt : loop_.body) {
      if (stops_.before(*stmt)) stop_check();
      if (!split) {
        statement(*stmt);
      } else if (stmt->kind == StmtKind::loop && stmt->mark == LoopMark::parallel) {
        sliced_loop(*stmt);
      } else if (stmt->kind == StmtKind::loop || stmt->kind == StmtKind::zero ||
                 stmt->kind == StmtKind::store) {
        line("if (args->part == 0) {{");
        ++depth_;
        statement(*stmt);
        --depth_;
        line("}}");
      } else {
        statement(*stmt);
      }
    }
    if (stops_.any) {
      out_ += "  goto done;\nstopped:\n";
      line("if (args->status) args->status->code = {};", HEDDLE_KERNEL_STOPPED);
      out_ += "done:;\n";
    }
    if (lanes_.streams()) line("__asm__ volatile(\"{}\" ::: \"memory\");", after_streaming);
    out_ += "}\n";
  }

 private:
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... args) {
    out_.append(2 * depth_, ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<A>(args)...);
    out_ += '\n';
  }

  static std::string name_comment(const std::vector<std::string>& names, std::size_t k) {
    return k < names.size() ? "  // " + comment_text(names[k]) : std::string();
  }

  void buffer(std::size_t k) {
    const BufferDecl& decl = loop_.buffers[k];
    const bool read_only = decl.role == Role::input || decl.role == Role::merge;
    const std::string type =
        fmt::format("{}{}*", read_only ? "const " : "", storage_type(decl.type.dtype));
    const auto address = embedded_address(kernel_, k);
    const std::string source =
        address ? fmt::format("(u64){:#x}ull", *address) : fmt::format("args->buffers[{}].data", k);
    line("{} const t{} = ({}){};  // {}{}", type, k, type, source, decl.type.to_string(),
         k < kernel_.names.buffers.size() ? " " + comment_text(kernel_.names.buffers[k]) : "");
  }

  /// Bytes of bool buffers may hold more than 0 and 1, so they are not _Bool.
  static std::string_view storage_type(DType t) { return t == DType::bool_ ? "u8" : c_type(t); }

  void statement(const Stmt& stmt) {
    count_step();
    switch (stmt.kind) {
      case StmtKind::comment:
        line("// {}", comment_text(stmt.text));
        return;
      case StmtKind::loop:
        loop(stmt);
        return;
      case StmtKind::zero:
        zero(stmt);
        return;
      case StmtKind::prefetch:
        prefetches(stmt);
        return;
      case StmtKind::store:
        store(stmt);
        return;
      case StmtKind::declare: {
        if (!stmt.dims.empty()) return lanes_.declare(stmt);
        const std::string text = value(*stmt.value);
        line("{} x{} = {};", c_type(stmt.value->dtype), stmt.local, c_bare(text));
        return;
      }
      case StmtKind::assign: {
        const std::string text = value(*stmt.value);
        line("{} = {};", local(stmt.local, stmt.subscripts), c_bare(text));
        if (nested_sums_.contains(stmt.local)) line("__asm__(\"\");");
        return;
      }
    }
  }

  void loop(const Stmt& stmt) {
    if (stmt.mark == LoopMark::lanes && lanes_.is_vector_loop(stmt)) return lanes_.loop(stmt);
    if (stmt.mark == LoopMark::unroll) {
      if (prefetches(stmt)) return;
      for (std::int64_t k = stmt.from; k < stmt.to; ++k) {
        line("{{  // i{} = {}", stmt.var, k);
        body(unrolled(stmt, k));
      }
      return;
    }
    counted_loop(stmt, index_literal(stmt.from), index_literal(stmt.to));
  }

  void counted_loop(const Stmt& stmt, const std::string& from, const std::string& to) {
    const std::int64_t period = stops_.period(stmt);
    if (period <= 1) return plain_loop(stmt, from, to);
    const std::string at = fmt::format("i{}_at", stmt.var);
    const std::string next = fmt::format("i{}_next", stmt.var);
    line("for (i64 {0} = {1}, {2}; {0} < {3}; {0} = {2}) {{", at, from, next, to);
    ++depth_;
    stop_check();
    line("{0} = (u64){1} - (u64){2} > {3}u ? {2} + {3} : {1};", next, to, at, period);
    plain_loop(stmt, at, next);
    --depth_;
    line("}}");
  }

  void plain_loop(const Stmt& stmt, const std::string& from, const std::string& to) {
    // Schedules say what is unrolled: more of it would not fit the registers.
    if (lanes_.has_vector_loop(stmt.body) && stmt.to - stmt.from > 1) line("#pragma GCC unroll 1");
    line("for (i64 {0} = {1}; {0} < {2}; ++{0}) {{", variable(stmt.var), from, to);
    repeated(stmt);
  }

  /// As in the loop text, but that types have some of its names.
  static std::string variable(VarId id) {
    const bool type = id == 8 || id == 16 || id == 32 || id == 64;
    return fmt::format("i{}{}", id, type ? "_" : "");
  }

  std::string local(LocalId id, const std::vector<Affine>& subscripts) const {
    return subscripts.empty() ? fmt::format("x{}", id) : lanes_.element(id, subscripts);
  }

  void body(const Block& block) {
    ++depth_;
    for (const StmtPtr& stmt : block) statement(*stmt);
    --depth_;
    line("}}");
  }

  void repeated(const Stmt& loop) {
    lanes_.forget();
    hidden_stores_ = scalar_loops_.hidden_stores(loop);
    ++depth_;
    if (stops_.period(loop) == 1) stop_check();
    for (const StmtPtr& stmt : loop.body) statement(*stmt);
    if (scalar_loops_.ends_with_asm(loop)) line("__asm__(\"\");");
    --depth_;
    line("}}");
    hidden_stores_.clear();
    lanes_.forget();
  }

  void stop_check() { line("if (__atomic_load_n(stop, __ATOMIC_RELAXED)) goto stopped;"); }

  void sliced_loop(const Stmt& stmt) {
    const std::string count = fmt::format(
        "{}ull", static_cast<std::uint64_t>(stmt.to) - static_cast<std::uint64_t>(stmt.from));
    const std::string from = index_literal(stmt.from);
    line("const i64 i{}_from = {} + (i64)((unsigned __int128){} * args->part / args->num_parts);",
         stmt.var, from, count);
    line(
        "const i64 i{}_to = {} + (i64)((unsigned __int128){} * (args->part + 1ull) / "
        "args->num_parts);",
        stmt.var, from, count);
    counted_loop(stmt, fmt::format("i{}_from", stmt.var), fmt::format("i{}_to", stmt.var));
  }

  void zero(const Stmt& stmt) {
    const ArrayType& type = loop_.buffers[stmt.buffer].type;
    if (!trace_) {
      line("__builtin_memset(t{}, 0, {});", stmt.buffer, *type.num_bytes());
      return;
    }
    line("for (i64 at = 0; at < {}; ++at) {{", index_literal(*type.num_elements()));
    ++depth_;
    traced_store(stmt.buffer, "0");
    --depth_;
    line("}}");
  }

  /// False where that is not all that it does.
  bool prefetches(const Stmt& stmt) {
    const std::vector<PrefetchGroup> groups = prefetch_groups(loop_, stmt);
    for (const PrefetchGroup& group : groups) prefetch(group);
    return !groups.empty();
  }

  void prefetch(const PrefetchGroup& group) {
    line("{{");
    ++depth_;
    line("const {}* const p = t{} + {};", storage_type(loop_.buffers[group.buffer].type.dtype),
         group.buffer, affine(group.first));
    for (const std::int64_t distance : group.distances) {
      line("__builtin_prefetch(p + {}, {:d}, {});", index_literal(distance),
           group.next == Prefetch::store, locality(group.next));
    }
    --depth_;
    line("}}");
  }

  void store(const Stmt& stmt) {
    const ArrayType& type = loop_.buffers[stmt.buffer].type;
    const std::string at = affine(flatten(type, stmt.subscripts));
    const std::string text = value(*stmt.value);
    const bool hides = hidden_stores_.contains(stmt.buffer);
    if (!trace_ && !hides) {
      line("t{}[{}] = {};", stmt.buffer, at, c_bare(text));
      return;
    }
    line("{{");
    ++depth_;
    if (trace_) {
      line("const i64 at = {};", at);
      traced_store(stmt.buffer, text);
    } else {
      line("{} value = {};", storage_type(type.dtype), c_bare(text));
      const bool floating = type.dtype == DType::f32 || type.dtype == DType::f64;
      line("__asm__(\"\" : \"+\" {}(value));", floating ? "FLOAT_REGISTER" : "\"r\"");
      line("t{}[{}] = value;", stmt.buffer, at);
    }
    --depth_;
    line("}}");
  }

  /// t[at] = text, told to the tracer. `at` is in scope.
  void traced_store(BufferId buffer, const std::string& text) {
    const DType dtype = loop_.buffers[buffer].type.dtype;
    line("const {} before = {};", c_type(dtype), loaded(buffer, "at"));
    line("const {} after = {};", c_type(dtype), c_bare(text));
    line("t{}[at] = after;", buffer);
    const auto widened = [&](const char* name) {
      if (dtype == DType::f64) return std::string(name);
      return primitives_.apply(cast_function(dtype, DType::f64), {name});
    };
    line("if (args->trace) args->trace(args->trace_context, {}u, {}u, at, {}, {});", assignments_++,
         buffer, widened("before"), widened("after"));
  }

  std::string loaded(BufferId buffer, const std::string& at) const {
    if (loop_.buffers[buffer].type.dtype == DType::bool_)
      return fmt::format("(t{}[{}] != 0)", buffer, at);
    return fmt::format("t{}[{}]", buffer, at);
  }

  /// A number in a place that converts to i64 by itself: bounds, subscripts, sums with i64.
  static std::string index_literal(std::int64_t v) {
    return v == static_cast<std::int32_t>(v) && v != INT32_MIN
               ? fmt::format("{}", v)
               : c_literal(Scalar::of_int(DType::i64, v));
  }

  static std::string affine(const Affine& a) {
    std::string text;
    for (const AffineTerm& term : a.terms) {
      const bool minus = term.coefficient == -1 ||
                         (term.coefficient < 0 && !text.empty() && term.coefficient > INT32_MIN);
      text += text.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
      const std::int64_t size = minus ? -term.coefficient : term.coefficient;
      if (size != 1) text += index_literal(size) + " * ";
      text += term.kind == AffineTerm::Kind::loop ? variable(term.id) : fmt::format("s{}", term.id);
    }
    if (text.empty()) return index_literal(a.constant);
    if (a.constant > 0) return text + " + " + index_literal(a.constant);
    if (a.constant < 0 && a.constant > INT32_MIN) return text + " - " + index_literal(-a.constant);
    return a.constant == 0 ? text : text + " + " + index_literal(a.constant);
  }

  std::string value(const Value& v) { return nested(v).text; }

  Text nested(const Value& v) {
    count_step();
    std::vector<std::string> args;
    std::vector<TermFacts> facts;
    Text result;
    for (const ValuePtr& arg : v.args) {
      Text text = nested(*arg);
      result.depth = std::max(result.depth, text.depth + 1);
      args.push_back(std::move(text.text));
      facts.push_back(text.facts);
    }
    result.facts = hidden_.facts(v, facts);
    if (subtracts_unsigned_zero(v)) args[1] = temporary(v.dtype, args[1]);
    for (std::size_t k = 0; k < args.size(); ++k) {
      if (HiddenTerms::hides(v, k, facts))
        args[k] = primitives_.apply(hide_function(v.dtype), {args[k], "zero"});
    }
    result.text = applied(v, args);
    if (result.depth > expression_depth_max) {
      result.text = temporary(v.dtype, result.text);
      result.depth = 0;
    }
    return result;
  }

  std::string applied(const Value& v, const std::vector<std::string>& args) {
    switch (v.kind) {
      case ValueKind::constant:
        return c_literal(v.scalar);
      case ValueKind::load:
        return loaded(v.buffer, affine(flatten(loop_.buffers[v.buffer].type, v.subscripts)));
      case ValueKind::local:
        return local(v.local, v.subscripts);
      case ValueKind::embed:
        return v.index.terms.empty() ? c_literal(Scalar::of_int(DType::i64, v.index.constant))
                                     : fmt::format("({})", affine(v.index));
      case ValueKind::op:
        return primitives_.apply(op_function(v.op, v.args.back()->dtype), args);
      case ValueKind::cast:
        return primitives_.apply(cast_function(v.args[0]->dtype, v.dtype), args);
    }
    return {};
  }

  std::string temporary(DType type, const std::string& value) {
    std::string name = fmt::format("y{}", temporaries_++);
    line("const {} {} = {};", c_type(type), name, value);
    return name;
  }

  const KernelSource& kernel_;
  const Loop& loop_;
  const std::set<LocalId> nested_sums_;
  const HiddenTerms hidden_;
  const StopChecks stops_;
  const bool trace_;
  CPrimitives& primitives_;
  const std::shared_ptr<const LanePlan> plan_;
  CLanes lanes_;
  const ScalarLoops scalar_loops_;
  std::set<BufferId> hidden_stores_;  // of the loop at hand
  std::string& out_;
  std::size_t depth_ = 1;
  int temporaries_ = 0;
  int assignments_ = 0;
};

}  // namespace

std::string emit_c(const CompileUnit& unit, const Target& target) {
  check_unit(unit);
  CPrimitives primitives;
  // Each single assignment is told to a tracer: no vectors.
  CVectors vectors(unit.trace_values ? Target() : target);
  std::string kernels;
  for (const KernelSource& kernel : unit.kernels) {
    CKernel(kernel, unit.trace_values, primitives, vectors, kernels).emit();
  }
  return fmt::format(
      "// unit {}: generated by heddle, kernel ABI {}\n{}\n{}{}EXPORT const u32 {} = {};\n{}",
      comment_text(unit.name), HEDDLE_KERNEL_ABI, c_prelude, primitives.definitions(),
      vectors.definitions(), unit_abi_symbol, HEDDLE_KERNEL_ABI, kernels);
}

}  // namespace heddle::jit
