// The parser of the loop text. Total: any input gives a verified kernel or an error with line and
// column.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "heddle/status.hpp"
#include "jit/loop/scanner.hpp"
#include "jit/loop/text.hpp"

namespace heddle::jit {
namespace {

class Parser : Scanner {
 public:
  explicit Parser(std::string_view text) : Scanner(text, "loop text") {}

  VerifiedLoop parse() {
    expect("heddle-loop");
    if (!accept("1")) fail("'1', the version that this heddle reads");
    while (accept("buffer")) buffer();
    while (accept("static")) static_index();
    expect("kernel");
    expect("{");
    loop_.body = block(0);
    skip(true);
    if (at_ != text_.size()) fail("end of text");
    return VerifiedLoop(std::move(loop_));
  }

 private:
  void buffer() {
    if (id('t', "a buffer such as t0") != loop_.buffers.size()) {
      fail(fmt::format("buffers in order, after t{} now", loop_.buffers.size()));
    }
    BufferDecl decl;
    decl.role = accept("input")     ? Role::input
                : accept("output")  ? Role::output
                : accept("inout")   ? Role::inout
                : accept("merge")   ? Role::merge
                : accept("scratch") ? Role::scratch
                                    : (fail("input, output, inout, merge or scratch"), Role::input);
    decl.type.dtype = dtype();
    expect("[");
    decl.type.dims = extents();
    loop_.buffers.push_back(std::move(decl));
  }

  void static_index() {
    if (id('s', "a static index such as s0") != loop_.statics.size()) {
      fail(fmt::format("static indices in order, after s{} now", loop_.statics.size()));
    }
    StaticDecl decl;
    if (accept("range")) decl.range = number<std::int64_t>("a range");
    loop_.statics.push_back(decl);
  }

  Block block(int depth) {
    if (depth > loop_depth_max) fail("loops nested less deep");
    Block body;
    while (true) {
      skip(false);
      if (at_ < text_.size() && text_[at_] == '#') {
        body.push_back(comment());
      } else if (accept("}")) {
        return body;
      } else {
        body.push_back(statement(depth));
      }
    }
  }

  StmtPtr comment() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view text = text_.substr(at_ + 1, end - at_ - 1);
    if (text.starts_with(' ')) text.remove_prefix(1);
    at_ = end;
    return make_comment(std::string(text));
  }

  StmtPtr statement(int depth) {
    const auto mark = accept("for")        ? std::optional(LoopMark::serial)
                      : accept("parallel") ? LoopMark::parallel
                      : accept("unroll")   ? LoopMark::unroll
                      : accept("lanes")    ? LoopMark::lanes
                      : accept("block")    ? std::optional(LoopMark::block)
                                           : std::nullopt;
    if (mark) {
      const VarId var = id('i', "a loop variable such as i0");
      expect("in");
      const auto from = number<std::int64_t>("a lower bound");
      expect("..");
      const auto to = number<std::int64_t>("an upper bound");
      expect("{");
      Block body = block(depth + 1);
      return make_loop(var, from, to, std::move(body), *mark);
    }
    if (const bool nearest = accept("nearest"); nearest || accept("at")) return at(nearest, depth);
    if (accept("zero")) return make_zero(id('t', "a buffer such as t0"));
    if (accept("let")) {
      const LocalId local = id('x', "a local such as x0");
      expect(":");
      const DType t = dtype();
      Dims dims;
      if (accept("[")) dims = extents();
      expect("=");
      ValuePtr v = value();
      if (v->dtype != t)
        fail(fmt::format("a value of {} before here (it is {})", name(t), name(v->dtype)));
      locals_[local] = t;
      return make_declare(local, std::move(v), std::move(dims));
    }
    if (sees_id('x')) {
      const LocalId local = id('x', "a local such as x0");
      std::vector<Affine> at = block_subscripts();
      expect("=");
      return make_assign(local, value(), std::move(at));
    }
    std::optional<Prefetch> prefetch;
    if (accept("prefetch"))
      prefetch = Prefetch::load;
    else if (accept("prefetch2"))
      prefetch = Prefetch::load_later;
    else if (accept("prefetchw"))
      prefetch = Prefetch::store;
    const bool stream = !prefetch && accept("stream");
    if (!sees_id('t'))
      fail(
          "a statement (for, parallel, unroll, lanes, at, nearest, zero, let, stream, prefetch, "
          "prefetch2, prefetchw, t.., x..) or '}'");
    const BufferId target = id('t', "a buffer such as t0");
    std::vector<Affine> at = subscripts();
    if (prefetch) return make_prefetch(target, std::move(at), *prefetch);
    if (!stream && accept("atomically")) {
      expect("=");
      return make_atomic_store(target, std::move(at), value());
    }
    expect("=");
    return make_store(target, std::move(at), value(), stream);
  }

  /// A computed position, after its first word.
  StmtPtr at(bool nearest, int depth) {
    const VarId var = id('i', "a variable such as i0");
    expect("in");
    const auto from = number<std::int64_t>("a lower bound");
    expect("..");
    const auto to = number<std::int64_t>("an upper bound");
    expect("=");
    ValuePtr position = value();
    expect("{");
    Block body = block(depth + 1);
    return make_at(var, from, to, std::move(position), nearest, std::move(body));
  }

  /// Subscripts of a local; none where the local is a scalar. They follow without a blank: a later
  /// bracket belongs to something else.
  std::vector<Affine> block_subscripts() {
    return text_.substr(at_).starts_with('[') ? subscripts() : std::vector<Affine>();
  }

  std::vector<Affine> subscripts() {
    std::vector<Affine> result;
    expect("[");
    while (!accept("]")) {
      if (!result.empty()) expect(",");
      result.push_back(affine());
    }
    return result;
  }

  Affine affine() {
    Affine sum;
    bool minus = accept("-");
    while (true) {
      std::int64_t factor = 1;
      bool has_number = false;
      bool times = false;
      if (!sees_id('i') && !sees_id('s')) {
        const auto size = number<std::uint64_t>("a number, i.. or s..");
        const std::uint64_t limit = std::uint64_t{1} << 63;
        if (size > limit || (size == limit && !minus)) fail("a 64-bit number before here");
        factor = static_cast<std::int64_t>(minus ? 0u - size : size);
        has_number = true;
        times = accept("*");
      } else if (minus) {
        factor = -1;
      }
      Affine term;
      if (has_number && !times) {
        term.constant = factor;
      } else if (sees_id('i')) {
        term = affine_var(id('i', "i.."), factor);
      } else {
        term = affine_static(id('s', "i.. or s.."), factor);
      }
      try {
        sum = affine_add(sum, term);
      } catch (const Error&) {
        fail("coefficients of 64 bits before here");
      }
      if (accept("+")) {
        minus = false;
      } else if (accept("-")) {
        minus = true;
      } else {
        return sum;
      }
    }
  }

  /// An operation or a conversion (no op) whose operands are being read.
  struct Open {
    std::optional<Op> op;
    DType type;
    std::vector<ValuePtr> args;
  };

  /// Keeps open operations in a vector, not on the stack: values nest deeply.
  ValuePtr value() {
    std::vector<Open> open;
    while (true) {
      ValuePtr result = leaf();
      if (!result) {
        if (open.size() > value_depth_max) fail("values nested less deep");
        open.push_back(head());
        expect("(");
        if (accept(")")) fail("an operand before here");
        continue;
      }
      while (true) {
        if (open.empty()) return result;
        open.back().args.push_back(std::move(result));
        if (!accept(")")) break;
        result = close(open.back());
        open.pop_back();
      }
      expect(",");
    }
  }

  /// Null where an operation or a conversion begins.
  ValuePtr leaf() {
    if (sees_id('t')) {
      const BufferId source = id('t', "a buffer such as t0");
      if (source >= loop_.buffers.size())
        fail(fmt::format("a declared buffer before here (t{} is none)", source));
      const DType t = loop_.buffers[source].type.dtype;
      return make_load(source, t, subscripts());
    }
    if (sees_id('x')) {
      const LocalId local = id('x', "a local such as x0");
      const auto known = locals_.find(local);
      if (known == locals_.end())
        fail(fmt::format("a declared local before here (x{} is none)", local));
      return make_local(local, known->second, block_subscripts());
    }
    skip(true);
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '-' || (c >= '0' && c <= '9') || word() == "nan" || word() == "inf")
      return make_constant(scalar());
    if (!accept("index")) return nullptr;
    expect("(");
    Affine at = affine();
    expect(")");
    return make_embed(std::move(at));
  }

  Open head() {
    const std::string_view text = word();
    if (const auto t = parse_dtype(text)) {
      at_ += text.size();
      return {std::nullopt, *t, {}};
    }
    const auto op = parse_op(text);
    if (!op)
      fail(
          "a value: t..[..], x.., index(..), a constant such as 1:f32, a conversion or an "
          "operation");
    at_ += text.size();
    expect(".");
    return {op, dtype(), {}};
  }

  ValuePtr close(const Open& open) {
    const auto& args = open.args;
    if (!open.op) {
      if (args.size() != 1) fail("one operand of a conversion before here");
      return make_cast(args[0], open.type);
    }
    const Op op = *open.op;
    std::vector<DType> types;
    for (const ValuePtr& arg : args) types.push_back(arg->dtype);
    const auto typing = type_op(op, types);
    const bool exact = typing && typing->operands == open.type && args.back()->dtype == open.type;
    if (!exact)
      fail(fmt::format("{} operands of {} for '{}' before here", op_info(op).arity, name(open.type),
                       op_info(op).name));
    ValuePtr result = make_op(op, args);
    for (std::size_t k = 0; k < args.size(); ++k) {
      if (result->args[k] != args[k])
        fail(fmt::format("operands of one type for '{}' before here", op_info(op).name));
    }
    return result;
  }

  Loop loop_;
  std::map<LocalId, DType> locals_;
};

}  // namespace

VerifiedLoop parse_loop(std::string_view text) { return Parser(text).parse(); }

}  // namespace heddle::jit
