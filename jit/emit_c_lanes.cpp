// See emit_c_lanes.hpp. Each lane of a vector is computed by the very operation that the plain loop
// would use, so both give the same bits.
#include "jit/emit_c_lanes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/status.hpp"
#include "jit/emit.hpp"
#include "jit/emit_c_primitives.hpp"

namespace heddle::jit {
namespace {

// {0}: the vector, {1}: the element, {2}: bytes of the vector, {3}: x, x, ... x.
constexpr std::string_view common = R"(typedef {1} {0} __attribute__((vector_size({2})));
typedef {1} {0}_in_memory __attribute__((vector_size({2}), aligned(__alignof__({1})), may_alias));
static inline {0} {0}_splat({1} x) {{ return ({0}){{{3}}}; }}
static inline {0} {0}_load(const {1}* p) {{ return *(const {0}_in_memory*)p; }}
static inline void {0}_store({1}* p, {0} x) {{ *({0}_in_memory*)p = x; }}
)";

constexpr std::string_view portable_parts =
    R"(static inline {0} {0}_load_part(const {1}* p, u32 count) {{
  {0} x = {{0}};
  __builtin_memcpy(&x, p, count * sizeof({1}));
  return x;
}}
static inline void {0}_store_part({1}* p, {0} x, u32 count) {{
  __builtin_memcpy(p, &x, count * sizeof({1}));
}}
)";

// {4}: letter of the element's instructions, {5}: type of a mask.
constexpr std::string_view masked_parts =
    R"(static inline {0} {0}_load_part(const {1}* p, u32 count) {{
  {0} x;
  __asm__("vmovup{4} %1, %0%{{%2%}}%{{z%}}"
          : "=v"(x) : "m"(*(const {0}_in_memory*)p), "Yk"(({5})((1u << count) - 1)));
  return x;
}}
static inline void {0}_store_part({1}* p, {0} x, u32 count) {{
  __asm__("vmovup{4} %1, %0%{{%2%}}"
          : "+m"(*({0}_in_memory*)p) : "v"(x), "Yk"(({5})((1u << count) - 1)));
}}
)";

constexpr std::string_view fused =
    R"(static inline {0} {0}_fma({0} a, {0} b, {0} c) {{
  __asm__("vfmadd231p{4} %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  return c;
}}
)";

std::string_view infix(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::sub:
      return "-";
    case Op::mul:
      return "*";
    case Op::div:
      return "/";
    default:
      throw Error(ErrorCode::internal, "no vector form of an operation that was planned as one");
  }
}

}  // namespace

std::string CVectors::use(DType type) {
  used_.insert(type);
  return fmt::format("v{}{}", target_.lanes(type), c_type(type));
}

std::string CVectors::define(DType type) const {
  const auto width = static_cast<std::size_t>(target_.lanes(type));
  const std::string_view element = c_type(type);
  const std::string vector = fmt::format("v{}{}", width, element);
  const std::string copies =
      fmt::format("{}", fmt::join(std::vector<std::string_view>(width, "x"), ", "));
  const char letter = size_of(type) == 8 ? 'd' : 's';
  const std::string_view mask = width > 8 ? "u16" : "u8";
  std::string text;
  const auto add = [&](std::string_view part) {
    text += fmt::format(fmt::runtime(part), vector, element, target_.vector_bytes(), copies, letter,
                        mask);
  };
  add(common);
  add(target_.isa == Isa::avx512 ? masked_parts : portable_parts);
  if (is_floating(type) && target_.has_fma()) add(fused);
  return text;
}

std::string CVectors::definitions() const {
  std::string text;
  for (const DType type : used_) text += define(type);
  return text;
}

void CLanes::declare(const Stmt& stmt) {
  const ArrayType& type = blocks_[stmt.local] = {stmt.value->dtype, stmt.dims};
  const std::string start{c_bare(scalars_.value(*stmt.value))};
  const std::int64_t count = *type.num_elements();
  if (!plan_.in_registers.contains(stmt.local)) {
    scalars_.line(fmt::format("{} x{}[{}] __attribute__((aligned(64)));  // {}", c_type(type.dtype),
                              stmt.local, count, type.to_string()));
    scalars_.line(
        fmt::format("for (i64 at = 0; at < {}; ++at) x{}[at] = {};", count, stmt.local, start));
    return;
  }
  const std::string vector = vectors_.use(type.dtype);
  const std::int64_t row = type.dims.back();
  const std::int64_t vectors =
      static_cast<std::int64_t>(lane_parts(row, vectors_.target().lanes(type.dtype)).size());
  for (std::int64_t k = 0; k < count / row; ++k) {
    std::vector<std::string> names;
    for (std::int64_t part = 0; part < vectors; ++part)
      names.push_back(fmt::format("x{}_{}_{} = {}_splat({})", stmt.local, k, part, vector, start));
    scalars_.line(fmt::format("{} {};", vector, fmt::join(names, ", ")));
  }
}

std::string CLanes::element(LocalId local, const std::vector<Affine>& at) const {
  return fmt::format("x{}[{}]", local, scalars_.index(flatten(blocks_.at(local), at)));
}

void CLanes::loop(const Stmt& stmt) {
  lanes_ = &stmt;
  width_ = lane_width(stmt, vectors_.target());
  own_.clear();
  splat_.clear();
  for (const StmtPtr& inner : stmt.body) {
    if (inner->kind == StmtKind::declare) own_.insert(inner->local);
  }
  for (const StmtPtr& inner : stmt.body) {
    if (inner->value) share(inner->value);
  }
  for (const LanePart& each : lane_parts(stmt.to - stmt.from, width_)) part(stmt, each);
}

void CLanes::part(const Stmt& loop, const LanePart& part) {
  for (const StmtPtr& stmt : loop.body) {
    if (!stmt->value) continue;
    const std::string type = vectors_.use(stmt->value->dtype);
    const std::string text = value(*stmt->value, part);
    switch (stmt->kind) {
      case StmtKind::declare:
        scalars_.line(fmt::format("{} x{}_{} = {};", type, stmt->local, part.first, text));
        break;
      case StmtKind::assign:
        if (stmt->subscripts.empty() || plan_.in_registers.contains(stmt->local)) {
          scalars_.line(fmt::format("{} = {};", place(stmt->local, stmt->subscripts, part), text));
        } else {
          store(type, pointer('x', stmt->local, blocks_.at(stmt->local), stmt->subscripts, part),
                text, part);
        }
        break;
      default:
        store(type,
              pointer('t', stmt->buffer, loop_.buffers[stmt->buffer].type, stmt->subscripts, part),
              text, part);
    }
  }
}

std::string CLanes::pointer(char prefix, std::uint32_t id, const ArrayType& type,
                            const std::vector<Affine>& at, const LanePart& part) const {
  auto [offset, step] = split_lane(flatten(type, at), lanes_->var);
  offset.constant += step * (lanes_->from + part.first);
  if (offset == Affine()) return fmt::format("{}{}", prefix, id);
  return fmt::format("{}{} + {}", prefix, id, scalars_.index(offset));
}

/// The variable that holds these lanes of a row, or of a local of the loop itself.
std::string CLanes::place(LocalId local, const std::vector<Affine>& at,
                          const LanePart& part) const {
  if (at.empty()) return fmt::format("x{}_{}", local, part.first);
  std::vector<Affine> row(at.begin(), at.end() - 1);
  ArrayType rows = blocks_.at(local);
  rows.dims.pop_back();
  return fmt::format("x{}_{}_{}", local, flatten(rows, row).constant, part.first / width_);
}

void CLanes::store(const std::string& type, const std::string& pointer, const std::string& value,
                   const LanePart& part) {
  scalars_.line(part.whole ? fmt::format("{}_store({}, {});", type, pointer, c_bare(value))
                           : fmt::format("{}_store_part({}, {}, {});", type, pointer, c_bare(value),
                                         part.count));
}

/// Gives every value that all lanes share a vector of its own, before the first part.
void CLanes::share(const ValuePtr& v) {
  if (!is_uniform(*v, lanes_->var, own_)) {
    for (const ValuePtr& arg : v->args) share(arg);
    return;
  }
  for (const auto& [known, name] : splat_) {
    if (equal(*known, *v)) return;
  }
  const std::string type = vectors_.use(v->dtype);
  std::string name = fmt::format("c{}", splats_++);
  scalars_.line(
      fmt::format("const {0} {1} = {0}_splat({2});", type, name, c_bare(scalars_.value(*v))));
  splat_.emplace_back(v, std::move(name));
}

std::string CLanes::value(const Value& v, const LanePart& part) {
  for (const auto& [known, name] : splat_) {
    if (equal(*known, v)) return name;
  }
  const std::string type = vectors_.use(v.dtype);
  const auto loaded = [&](const std::string& from) {
    return part.whole ? fmt::format("{}_load({})", type, from)
                      : fmt::format("{}_load_part({}, {})", type, from, part.count);
  };
  switch (v.kind) {
    case ValueKind::load:
      return loaded(pointer('t', v.buffer, loop_.buffers[v.buffer].type, v.subscripts, part));
    case ValueKind::local:
      if (v.subscripts.empty() || plan_.in_registers.contains(v.local))
        return place(v.local, v.subscripts, part);
      return loaded(pointer('x', v.local, blocks_.at(v.local), v.subscripts, part));
    default:
      break;
  }
  std::vector<std::string> args;
  for (const ValuePtr& arg : v.args) args.push_back(value(*arg, part));
  switch (v.op) {
    case Op::neg:
      return fmt::format("(-{})", args[0]);
    case Op::fma:
      if (is_floating(v.dtype)) return fmt::format("{}_fma({})", type, fmt::join(args, ", "));
      return fmt::format("(({} * {}) + {})", args[0], args[1], args[2]);
    default:
      return fmt::format("({} {} {})", args[0], infix(v.op), args[1]);
  }
}

}  // namespace heddle::jit
