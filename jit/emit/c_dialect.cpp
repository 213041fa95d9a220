// See emit/c_dialect.hpp.
#include "jit/emit/c_dialect.hpp"

#include <fmt/ranges.h>

#include <cstdint>

#include "heddle/kernel.h"

namespace heddle::jit {

std::string CDialect::name_comment(const std::vector<std::string>& names, std::size_t k) {
  return k < names.size() ? "  // " + comment_text(names[k]) : std::string();
}

void CDialect::begin_kernel(const KernelSource& kernel) {
  out_ += fmt::format("\nEXPORT void {}(const heddle_kernel_args* args) {{\n",
                      kernel_symbol(kernel.name));
  for (std::size_t k = 0; k < loop_.statics.size(); ++k)
    line("const i64 s{} = args->statics[{}];{}", k, k, name_comment(kernel.names.statics, k));
}

void CDialect::take_address(const KernelSource& kernel, BufferId k) {
  const BufferDecl& decl = loop_.buffers[k];
  const bool read_only = decl.role == Role::input || decl.role == Role::merge;
  const std::string type =
      fmt::format("{}{}*", read_only ? "const " : "", storage_type(decl.type.dtype));
  const auto address = embedded_address(kernel, k);
  const std::string source =
      address ? fmt::format("(u64){:#x}ull", *address) : fmt::format("args->buffers[{}].data", k);
  line("{} const t{} = ({}){};  // {}{}", type, k, type, source, decl.type.to_string(),
       k < kernel.names.buffers.size() ? " " + comment_text(kernel.names.buffers[k]) : "");
}

void CDialect::declare_zero() {
  line("u64 zero = 0;");
  line("__asm__(\"\" : \"+r\"(zero));");
}

void CDialect::declare_stop() {
  line("const u32 never = 0;");
  line("const u32* const stop = args->stop ? args->stop : &never;");
}

/// GCC's default guess is that the word is set: it would take code after eight checks for code that
/// hardly ever runs, and make no vectors of its loops.
void CDialect::check_stop() {
  line("if (__builtin_expect_with_probability(__atomic_load_n(stop, __ATOMIC_RELAXED), 0, 1.0))");
  line("  goto stopped;");
}

void CDialect::end_stops() {
  out_ += "  goto done;\nstopped:\n";
  line("if (args->status) args->status->code = {};", HEDDLE_KERNEL_STOPPED);
  out_ += "done:;\n";
}

std::pair<CDialect::Made, CDialect::Made> CDialect::slice(const Stmt& loop) {
  const std::string count = fmt::format(
      "{}ull", static_cast<std::uint64_t>(loop.to) - static_cast<std::uint64_t>(loop.from));
  const std::string from = number(loop.from);
  line("const i64 i{}_from = {} + (i64)((unsigned __int128){} * args->part / args->num_parts);",
       loop.var, from, count);
  line(
      "const i64 i{}_to = {} + (i64)((unsigned __int128){} * (args->part + 1ull) / "
      "args->num_parts);",
      loop.var, from, count);
  return {fmt::format("i{}_from", loop.var), fmt::format("i{}_to", loop.var)};
}

void CDialect::end_streams() { line("__asm__ volatile(\"{}\" ::: \"memory\");", after_streaming); }

void CDialect::zero_buffer(BufferId buffer) {
  line("__builtin_memset(t{}, 0, {});", buffer, *loop_.buffers[buffer].type.num_bytes());
}

void CDialect::declare(LocalId local, DType type, const Made& start) {
  line("{} x{} = {};", c_type(type), local, c_bare(start));
}

void CDialect::prefetch(const PrefetchGroup& group) {
  scoped([&] {
    line("const {}* const p = t{} + {};", storage_type(loop_.buffers[group.buffer].type.dtype),
         group.buffer, index(group.first));
    for (const std::int64_t distance : group.distances) {
      line("__builtin_prefetch(p + {}, {:d}, {});", number(distance), group.next == Prefetch::store,
           locality(group.next));
    }
  });
}

void CDialect::tell(std::uint32_t assignment, BufferId buffer, const Made& at, const Made& before,
                    const Made& after) {
  line("if (args->trace) args->trace(args->trace_context, {}u, {}u, {}, {}, {});", assignment,
       buffer, at, before, after);
}

CDialect::Made CDialect::named(const char* name, DType type, const Made& value) {
  line("const {} {} = {};", c_type(type), name, c_bare(value));
  return name;
}

CDialect::Made CDialect::temporary(DType type, const Made& value) {
  Made name = fmt::format("y{}", temporaries_++);
  line("const {} {} = {};", c_type(type), name, value);
  return name;
}

CDialect::Made CDialect::hidden(DType type, const Made& value) {
  line("{} value = {};", storage_type(type), c_bare(value));
  const bool floating = type == DType::f32 || type == DType::f64;
  line("__asm__(\"\" : \"+\" {}(value));", floating ? "FLOAT_REGISTER" : "\"r\"");
  return "value";
}

CDialect::Made CDialect::number(std::int64_t v) {
  return v == static_cast<std::int32_t>(v) && v != INT32_MIN
             ? std::to_string(v)
             : c_literal(Scalar::of_int(DType::i64, v));
}

/// Variables have their names in the loop text, except names that are C types.
std::string CDialect::variable(VarId id) {
  const bool type = id == 8 || id == 16 || id == 32 || id == 64;
  return fmt::format("i{}{}", id, type ? "_" : "");
}

CDialect::Made CDialect::index(const Affine& a) {
  std::string text;
  for (const AffineTerm& term : a.terms) {
    const bool minus = term.coefficient == -1 ||
                       (term.coefficient < 0 && !text.empty() && term.coefficient > INT32_MIN);
    text += text.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
    const std::int64_t size = minus ? -term.coefficient : term.coefficient;
    if (size != 1) text += number(size) + " * ";
    text += term.kind == AffineTerm::Kind::loop ? variable(term.id) : fmt::format("s{}", term.id);
  }
  if (text.empty()) return number(a.constant);
  if (a.constant > 0) return text + " + " + number(a.constant);
  if (a.constant < 0 && a.constant > INT32_MIN) return text + " - " + number(-a.constant);
  return a.constant == 0 ? text : text + " + " + number(a.constant);
}

CDialect::Made CDialect::embed(const Affine& a) {
  return a.terms.empty() ? c_literal(Scalar::of_int(DType::i64, a.constant))
                         : fmt::format("({})", index(a));
}

CDialect::Made CDialect::load(BufferId buffer, const Made& at) const {
  if (loop_.buffers[buffer].type.dtype == DType::bool_)
    return fmt::format("(t{}[{}] != 0)", buffer, at);
  return fmt::format("t{}[{}]", buffer, at);
}

void CDialect::declare_array(LocalId local, const ArrayType& type, const Made& start) {
  const std::int64_t count = *type.num_elements();
  line("{} x{}[{}] __attribute__((aligned(64)));  // {}", c_type(type.dtype), local, count,
       type.to_string());
  line("for (i64 at = 0; at < {}; ++at) x{}[at] = {};", count, local, c_bare(start));
}

void CDialect::declare_rows(LocalId, DType type, const std::vector<std::vector<std::string>>& rows,
                            const Made& start) {
  const std::string vector = vectors_.use(type);
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> each;
    for (const std::string& name : row)
      each.push_back(fmt::format("{} = {}_splat({})", name, vector, c_bare(start)));
    line("{} {};", vector, fmt::join(each, ", "));
  }
}

void CDialect::declare_columns(LocalId local, DType type, std::int64_t count) {
  vectors_.use_transpose(type);
  line("{} x{}_columns[{}];", vectors_.use(type), local, count);
}

void CDialect::begin_lanes(DType type) { word_ = lane_word(size_of(type)); }

CDialect::Made CDialect::in_all_lanes(DType type, const Made& scalar) {
  const std::string vector = vectors_.value_type(type, word_);
  const std::string bare{c_bare(scalar)};
  Made name = fmt::format("c{}", splats_++);
  line("const {} {} = {};", vector, name,
       type == DType::bool_ ? vectors_.mask_splat(bare, word_)
                            : fmt::format("{}_splat({})", vector, bare));
  return name;
}

CDialect::Made CDialect::constant_lanes(DType type, const std::vector<Scalar>& lanes) {
  std::vector<std::string> each;
  for (const Scalar& lane : lanes) each.push_back(c_literal(lane));
  Made name = fmt::format("c{}", splats_++);
  line("const {} {} = {{{}}};", vectors_.use(type), name, fmt::join(each, ", "));
  return name;
}

CDialect::Place CDialect::pointer(std::string array, const Affine& at) {
  return at == Affine() ? array : fmt::format("{} + {}", array, index(at));
}

CDialect::Made CDialect::load_lanes(DType type, const Place& from, const LanePart& part) {
  if (type == DType::bool_) type = DType::u8;  // in memory
  const std::string vector = vectors_.use(type);
  const std::string of = type == DType::f16       ? "_half"
                         : in_lanes(type) != type ? fmt::format("_{}", name(type))
                                                  : "";
  if (vectors_.in_pieces(type, part)) return fmt::format("{}_load_pieces({})", vector, from);
  return part.whole ? fmt::format("{}_load{}({})", vector, of, from)
                    : fmt::format("{}_load{}_part({}, {})", vector, of, from, part.count);
}

void CDialect::store_lanes(DType type, const Place& to, const Made& value, const LanePart& part) {
  const std::string vector = vectors_.use(type);
  const char* const of = type == DType::f16 ? "_half" : "";
  if (vectors_.in_pieces(type, part)) {
    line("{}_store_pieces({}, {});", vector, to, c_bare(value));
  } else if (part.whole) {
    line("{}_store{}({}, {});", vector, of, to, c_bare(value));
  } else {
    line("{}_store{}_part({}, {}, {});", vector, of, to, c_bare(value), part.count);
  }
}

void CDialect::stream_lanes(DType type, const Place& to, const Made& value) {
  vectors_.use_streams(type);
  line("{}_stream({}, {});", vectors_.use(type), to, c_bare(value));
}

CDialect::Made CDialect::permute(DType, const Made& first, const Made& second,
                                 const std::vector<std::int64_t>& indices) {
  return fmt::format("__builtin_shufflevector({}, {}, {})", first, second,
                     fmt::join(indices, ", "));
}

void CDialect::declare_lanes(const std::string& name, DType type, const Made& value) {
  line("{} {} = {};", vectors_.value_type(type, word_), name, value);
}

void CDialect::turn(LocalId local, const ArrayType& type, std::int64_t first,
                    const std::vector<std::string>& rows) {
  line("{}_transpose(x{}_columns + {}, {});", vectors_.use(type.dtype), local, first,
       fmt::join(rows, ", "));
}

}  // namespace heddle::jit
