// See emit/c_lanes.hpp. Each lane of a vector is computed by the very operation that the plain loop
// would use, so both give the same bits.
#include "jit/emit/c_lanes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "jit/emit/c_primitives.hpp"
#include "jit/emit/emit.hpp"
#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lane_transpose.hpp"

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

// {4}: the instruction, {5}: constraint of a vector.
constexpr std::string_view streaming = R"(static inline void {0}_stream({1}* p, {0} x) {{
  __asm__("{4}" : "=m"(*({0}_in_memory*)p) : "r"(p), "{5}"(x) : "cc");
}}
)";

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
  if (streamed_.contains(type)) {
    text += fmt::format(streaming, vector, element, target_.vector_bytes(), copies,
                        stream_instruction(type, target_), lane_constraint(type, target_));
  }
  if (transposed_.contains(type)) text += define_transpose(type);
  return text;
}

std::string CVectors::define_transpose(DType type) const {
  const auto rows = static_cast<std::size_t>(target_.lanes(type));
  const std::string vector = fmt::format("v{}{}", rows, c_type(type));
  std::vector<std::string> params;
  for (std::size_t k = 0; k < rows; ++k) params.push_back(fmt::format("{} v{}", vector, k));
  std::string text = fmt::format("INLINE void {0}_transpose({0}* columns, {1}) {{\n", vector,
                                 fmt::join(params, ", "));
  const char* const constraint = lane_constraint(type, target_);
  const std::vector<LaneShuffle> shuffles = lane_transpose(type, target_);
  for (std::size_t k = 0; k < shuffles.size(); ++k) {
    const LaneShuffle& each = shuffles[k];
    text += fmt::format(
        "  {0} v{1}; __asm__(\"{2}\" : \"={3}\"(v{1}) : \"{3}\"(v{4}), \"{3}\"(v{5}));\n", vector,
        rows + k, each.instruction, constraint, each.first, each.second);
  }
  for (std::size_t k = 0; k < rows; ++k)
    text += fmt::format("  columns[{}] = v{};\n", k, shuffles.size() + k);
  return text + "}\n";
}

std::string CVectors::definitions() const {
  std::string text;
  for (const DType type : used_) text += define(type);
  for (const auto& [name, definition] : functions_) text += definition;
  return text;
}

std::string CVectors::value_type(DType type, DType word) {
  if (type != DType::bool_) return use(type);
  if (has_mask_registers(target_)) return target_.lanes(word) > 8 ? "u16" : "u8";
  return use(word);
}

std::string CVectors::mask_splat(const std::string& value, DType word) {
  const std::string type = value_type(DType::bool_, word);
  if (has_mask_registers(target_)) return fmt::format("({0})-({0})({1})", type, value);
  return fmt::format("{}_splat(-({})({}))", type, c_type(word), value);
}

std::string CVectors::apply(const PrimFunction& function, const std::vector<std::string>& args,
                            DType word) {
  if (function.is_pass_through()) return args[function.value];
  const Prim& first = function.code[0];
  if (function.is_single() && lane_form(first, function, target_) == LaneForm::infix)
    return fmt::format("({} {} {})", args[0], c_infix(first.op), args[1]);
  const std::string name = fmt::format("v{}_{}", target_.lanes(word), function.name);
  if (!functions_.contains(name)) functions_[name] = define(function, name, word);
  return fmt::format("{}({})", name, fmt::join(args, ", "));
}

std::string CVectors::define(const PrimFunction& function, const std::string& name, DType word) {
  std::vector<std::string> names;
  std::vector<std::string> params;
  for (std::size_t k = 0; k < function.params.size(); ++k) {
    names.push_back(fmt::format("{}", "abc"[k]));
    params.push_back(fmt::format("{} {}", value_type(function.params[k], word), names[k]));
  }
  std::string text = fmt::format("static inline {} {}({}) {{\n", value_type(function.result, word),
                                 name, fmt::join(params, ", "));
  for (const Prim& prim : function.code) {
    std::vector<std::string> args;
    for (std::uint32_t k = 0; k < num_operands(prim); ++k) args.push_back(names[prim.args[k]]);
    names.push_back(fmt::format("v{}", names.size()));
    text += fmt::format("  {} {}", value_type(prim.type, word), names.back());
    text += define(prim, function, names.back(), args);
  }
  return text + fmt::format("  return {};\n}}\n", names[function.value]);
}

/// What follows the name of the instruction's result.
std::string CVectors::define(const Prim& prim, const PrimFunction& function,
                             const std::string& result, const std::vector<std::string>& args) {
  const LaneForm form = lane_form(prim, function, target_);
  switch (form) {
    case LaneForm::constant:
      return fmt::format(" = {}_splat({});\n", use(prim.type), c_literal(prim.scalar));
    case LaneForm::infix:
    case LaneForm::mask_infix:
      return fmt::format(" = {} {} {};\n", args[0], c_infix(prim.op), args[1]);
    case LaneForm::negate:
      return fmt::format(" = -{};\n", args[0]);
    case LaneForm::same_bits:
      return fmt::format(" = ({}){};\n", use(prim.type), args[0]);
    case LaneForm::magnitude: {
      const DType bits = size_of(prim.type) == 8 ? DType::u64 : DType::u32;
      return fmt::format(" = ({0})(({1}){2} << 1 >> 1);\n", use(prim.type), use(bits), args[0]);
    }
    default:
      break;
  }
  std::vector<std::string> inputs;
  for (std::size_t k = 0; k < args.size(); ++k) {
    const bool begins = k == 2 && is_multiply_add(prim);
    inputs.push_back(fmt::format(
        "\"{}\"({})", begins ? "0" : lane_constraint(function.type_of(prim.args[k]), target_),
        args[k]));
  }
  return fmt::format(";\n  __asm__(\"{}\" : \"={}\"({}) : {});\n",
                     lane_instruction(prim, function, target_), lane_constraint(prim.type, target_),
                     result, fmt::join(inputs, ", "));
}

bool CLanes::has_vector_loop(const Block& body) const {
  bool found = false;
  walk(body, [&](const Stmt& stmt) {
    found = found || (stmt.mark == LoopMark::lanes && is_vector_loop(stmt));
  });
  return found;
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
  if (!plan_.turned.contains(stmt.local)) return;
  forget();
  vectors_.use_transpose(type.dtype);
  const std::int64_t width = vectors_.target().lanes(type.dtype);
  scalars_.line(fmt::format("{} x{}_columns[{}];", vector, stmt.local,
                            (count / row + width - 1) / width * width));
}

std::string CLanes::element(LocalId local, const std::vector<Affine>& at) const {
  return fmt::format("x{}[{}]", local, scalars_.index(flatten(blocks_.at(local), at)));
}

void CLanes::loop(const Stmt& stmt) {
  lanes_ = &stmt;
  const DType type = *lane_type(stmt.body);
  width_ = vectors_.target().lanes(type);
  word_ = lane_word(size_of(type));
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
    const std::string type = vectors_.value_type(stmt->value->dtype, word_);
    const std::string text = value(*stmt->value, part);
    switch (stmt->kind) {
      case StmtKind::declare:
        scalars_.line(fmt::format("{} x{}_{} = {};", type, stmt->local, part.first, text));
        break;
      case StmtKind::assign:
        if (stmt->subscripts.empty() || plan_.in_registers.contains(stmt->local)) {
          scalars_.line(fmt::format("{} = {};", place(stmt->local, stmt->subscripts, part), text));
          if (plan_.turned.contains(stmt->local)) forget();
        } else {
          store(type, pointer('x', stmt->local, blocks_.at(stmt->local), stmt->subscripts, part),
                text, part);
        }
        break;
      default:
        store(type,
              pointer('t', stmt->buffer, loop_.buffers[stmt->buffer].type, stmt->subscripts, part),
              text, part, stmt->stream && streams_);
        if (stmt->stream && streams_ && part.whole) vectors_.use_streams(stmt->value->dtype);
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
                   const LanePart& part, bool stream) {
  scalars_.line(
      part.whole
          ? fmt::format("{}_{}({}, {});", type, stream ? "stream" : "store", pointer, c_bare(value))
          : fmt::format("{}_store_part({}, {}, {});", type, pointer, c_bare(value), part.count));
}

/// These lanes of a column of a block in registers; those of all columns are made where one is
/// asked for.
std::string CLanes::column(const Value& v, const LanePart& part) {
  const std::int64_t extent = blocks_.at(v.local).dims[0];
  if (turned_.emplace(v.local, part.first).second) {
    std::vector<std::string> rows;
    for (std::int64_t k = part.first; k < part.first + width_; ++k)
      rows.push_back(fmt::format("x{}_{}_0", v.local, k < extent ? k : part.first));
    scalars_.line(fmt::format("{}_transpose(x{}_columns + {}, {});", vectors_.use(v.dtype), v.local,
                              part.first, fmt::join(rows, ", ")));
  }
  return fmt::format("x{}_columns[{}]", v.local, part.first + v.subscripts[1].constant);
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
  const std::string type = vectors_.value_type(v->dtype, word_);
  const std::string scalar{c_bare(scalars_.value(*v))};
  std::string name = fmt::format("c{}", splats_++);
  const std::string lanes = v->dtype == DType::bool_ ? vectors_.mask_splat(scalar, word_)
                                                     : fmt::format("{}_splat({})", type, scalar);
  scalars_.line(fmt::format("const {} {} = {};", type, name, lanes));
  splat_.emplace_back(v, std::move(name));
}

std::string CLanes::value(const Value& v, const LanePart& part) {
  for (const auto& [known, name] : splat_) {
    if (equal(*known, v)) return name;
  }
  const auto loaded = [&](const std::string& from) {
    const std::string type = vectors_.use(v.dtype);
    return part.whole ? fmt::format("{}_load({})", type, from)
                      : fmt::format("{}_load_part({}, {})", type, from, part.count);
  };
  switch (v.kind) {
    case ValueKind::load:
      return loaded(pointer('t', v.buffer, loop_.buffers[v.buffer].type, v.subscripts, part));
    case ValueKind::local:
      if (plan_.is_column(v, lanes_->var)) return column(v, part);
      if (v.subscripts.empty() || plan_.in_registers.contains(v.local))
        return place(v.local, v.subscripts, part);
      return loaded(pointer('x', v.local, blocks_.at(v.local), v.subscripts, part));
    default:
      break;
  }
  std::vector<std::string> args;
  for (const ValuePtr& arg : v.args) args.push_back(value(*arg, part));
  return vectors_.apply(lane_function(v, vectors_.target()), args, word_);
}

}  // namespace heddle::jit
