// See emit/c_vectors.hpp.
#include "jit/emit/c_vectors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ranges>

#include "jit/emit/c_primitives.hpp"
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

constexpr std::string_view copied_load =
    R"(static inline {0} {0}_load_part(const {1}* p, u32 count) {{
  {0} x = {{0}};
  __builtin_memcpy(&x, p, count * sizeof({1}));
  return x;
}}
)";

// A copy would be loaded from memory where its pieces were just stored, and wait for the stores: 8
// ns on AMD EPYC. {4}: letter of the element's instructions, {6}: an integer of its size, {7}: 0,
// 1, 2 ...
constexpr std::string_view avx2_load =
    R"(static inline {0} {0}_load_part(const {1}* p, u32 count) {{
  typedef {6} lanes __attribute__((vector_size({2})));
  const {6} x = ({6})count;
  const lanes mask = (lanes){{{7}}} < (lanes){{{3}}};
  {0} part;
  __asm__("vmaskmovp{4} %2, %1, %0"
          : "=x"(part) : "x"(mask), "m"(*(const {0}_in_memory*)p));
  return part;
}}
)";

constexpr std::string_view copied_store =
    R"(static inline void {0}_store_part({1}* p, {0} x, u32 count) {{
  __builtin_memcpy(p, &x, count * sizeof({1}));
}}
)";

// {4}: letter of the element's instructions, {5}: type of a mask, {8}, {9}: define_parts().
constexpr std::string_view masked_parts =
    R"(static inline {0} {0}_load_part(const {1}* p, u32 count) {{
{8}  {0} x;
  __asm__("vmovup{4} %1, %0%{{%2%}}%{{z%}}"
          : "=v"(x) : "m"(*(const {0}_in_memory*)p), "Yk"(({5})((1u << count) - 1)));
  return x;
}}
static inline void {0}_store_part({1}* p, {0} x, u32 count) {{
{9}  __asm__("vmovup{4} %1, %0%{{%2%}}"
          : "+m"(*({0}_in_memory*)p) : "v"(x), "Yk"(({5})((1u << count) - 1)));
}}
)";

// {0}: the vector, {1}: the element, {2}: bytes of its first lanes, {3}: their number.
constexpr std::string_view first_lanes =
    R"(typedef {1} {0}_first{3} __attribute__((vector_size({2})));
typedef {1} {0}_first{3}_in_memory
    __attribute__((vector_size({2}), aligned(__alignof__({1})), may_alias));
)";

// {0}: the vector, {1}: the element. See in_pieces(). Constraint x, and not v: clang 19 gives parts
// of the registers from the sixteenth on other names.
constexpr std::string_view pieces = R"(typedef {1} {0}_first2 __attribute__((vector_size(8)));
typedef {1} {0}_first2_in_memory __attribute__((vector_size(8), aligned(4), may_alias));
static inline {0} {0}_load_pieces(const {1}* p) {{
  {0} x;
  __asm__("vmovsd %1, %x0" : "=x"(x) : "m"(*(const {0}_first2_in_memory*)p));
  __asm__("vinsertps $32, %1, %x0, %x0" : "+x"(x) : "m"(p[2]));
  return x;
}}
static inline void {0}_store_pieces({1}* p, {0} x) {{
  __asm__("vmovlps %x1, %0" : "=m"(*({0}_first2_in_memory*)p) : "x"(x));
  __asm__("vextractps $2, %x1, %0" : "=m"(p[2]) : "x"(x));
}}
)";

/// The C code of parts that a smaller register holds, for loads and for stores: whole registers,
/// for whose end loads of these elements need not wait as for masked stores, and masked ones, which
/// touch fewer cache lines than masked vectors.
struct PartsInRegisters {
  std::string types, load, store;
};
PartsInRegisters define_parts(const std::string& vector, std::string_view element, char letter,
                              std::string_view mask, const Target& target,
                              std::int64_t element_bytes) {
  const std::int64_t bytes = target.vector_bytes();
  const auto numbers = [](std::int64_t count) {
    return fmt::format("{}", fmt::join(std::views::iota(std::int64_t{0}, count), ", "));
  };
  const auto type_of = [&](std::int64_t count) { return fmt::format("{}_first{}", vector, count); };
  PartsInRegisters made;
  for (std::int64_t part = bytes / 2; part >= 16; part /= 2) {
    const std::int64_t count = part / element_bytes;
    made.types += fmt::format(first_lanes, vector, element, part, count);
    std::string whole = "first";
    for (std::int64_t k = count; k < bytes / element_bytes; k *= 2)
      whole = fmt::format("__builtin_shufflevector({}, ({}){{0}}, {})", whole, type_of(k),
                          numbers(2 * k));
    made.load += fmt::format(
        "  if (count == {0}) {{\n    const {1} first = *(const {1}_in_memory*)p;\n"
        "    return {2};\n  }}\n",
        count, type_of(count), whole);
    made.store += fmt::format(
        "  if (count == {0}) {{\n    *({1}_in_memory*)p = __builtin_shufflevector(x, x, {2});\n"
        "    return;\n  }}\n",
        count, type_of(count), numbers(count));
  }
  for (std::int64_t part = 16; part < bytes; part *= 2) {
    const std::int64_t count = part / element_bytes;
    const char in = part_register(target, part).letter;
    made.load += fmt::format(
        "  if (count < {0}) {{\n    {1} x;\n    __asm__(\"vmovup{2} %1, %{3}0%{{%2%}}%{{z%}}\"\n"
        "            : \"=x\"(x) : \"m\"(*(const {4}_in_memory*)p), "
        "\"Yk\"(({5})((1u << count) - 1)));\n    return x;\n  }}\n",
        count, vector, letter, in, type_of(count), mask);
    made.store += fmt::format(
        "  if (count < {0}) {{\n    __asm__(\"vmovup{1} %{2}1, %0%{{%2%}}\"\n"
        "            : \"+m\"(*({3}_in_memory*)p) : \"x\"(x), "
        "\"Yk\"(({4})((1u << count) - 1)));\n    return;\n  }}\n",
        count, letter, in, type_of(count), mask);
  }
  return made;
}

// {4}: the instruction, {5}: constraint of a vector.
constexpr std::string_view streaming = R"(static inline void {0}_stream({1}* p, {0} x) {{
  __asm__("{4}" : "=m"(*({0}_in_memory*)p) : "r"(p), "{5}"(x) : "cc");
}}
)";

// {0}: the vector of f32, {1}: bytes of as many f16, {2}: constraint of a vector, {3}, {4}: the
// instructions to f32 and to f16.
constexpr std::string_view halves = R"(typedef u16 {0}_half __attribute__((vector_size({1})));
typedef u16 {0}_half_in_memory __attribute__((vector_size({1}), aligned(2), may_alias));
static inline {0} {0}_load_half(const u16* p) {{
  {0} x;
  __asm__("{3}" : "={2}"(x) : "m"(*(const {0}_half_in_memory*)p));
  return x;
}}
static inline void {0}_store_half(u16* p, {0} x) {{
  __asm__("{4}" : "=m"(*({0}_half_in_memory*)p) : "{2}"(x));
}}
static inline {0} {0}_round_to_half({0} x) {{
  {0}_half half;
  __asm__("{4}" : "={2}"(half) : "{2}"(x));
  __asm__("{3}" : "={2}"(x) : "{2}"(half));
  return x;
}}
)";

constexpr std::string_view copied_half_parts =
    R"(static inline {0} {0}_load_half_part(const u16* p, u32 count) {{
  {0}_half half = {{0}};
  __builtin_memcpy(&half, p, count * sizeof(u16));
  {0} x;
  __asm__("{3}" : "={2}"(x) : "{2}"(half));
  return x;
}}
static inline void {0}_store_half_part(u16* p, {0} x, u32 count) {{
  {0}_half half;
  __asm__("{4}" : "={2}"(half) : "{2}"(x));
  __builtin_memcpy(p, &half, count * sizeof(u16));
}}
)";

constexpr std::string_view masked_half_parts =
    R"(static inline {0} {0}_load_half_part(const u16* p, u32 count) {{
  {0} x;
  __asm__("{3}%{{%2%}}%{{z%}}"
          : "=v"(x) : "m"(*(const {0}_half_in_memory*)p), "Yk"((u16)((1u << count) - 1)));
  return x;
}}
static inline void {0}_store_half_part(u16* p, {0} x, u32 count) {{
  __asm__("{4}%{{%2%}}"
          : "+m"(*({0}_half_in_memory*)p) : "v"(x), "Yk"((u16)((1u << count) - 1)));
}}
)";

// {0}: the vector of f32, {1}: bytes of as many elements, {2}: constraint of a vector, {3}, {4}:
// the instructions to words, and to f32; {5}: name of the elements' type, {6}: their type in C,
// {7}: their bytes, {8}: constraint of so many elements.
constexpr std::string_view widened_whole =
    R"(typedef {6} {0}_{5} __attribute__((vector_size({1})));
typedef {6} {0}_{5}_in_memory __attribute__((vector_size({1}), aligned({7}), may_alias));
static inline {0} {0}_load_{5}(const {6}* p) {{
  {0} x;
  __asm__("{3}" : "={2}"(x) : "m"(*(const {0}_{5}_in_memory*)p));
  __asm__("{4}" : "={2}"(x) : "{2}"(x));
  return x;
}}
)";

constexpr std::string_view copied_widened_part =
    R"(static inline {0} {0}_load_{5}_part(const {6}* p, u32 count) {{
  {0}_{5} part = {{0}};
  __builtin_memcpy(&part, p, count * sizeof({6}));
  {0} x;
  __asm__("{3}" : "={2}"(x) : "{8}"(part));
  __asm__("{4}" : "={2}"(x) : "{2}"(x));
  return x;
}}
)";

constexpr std::string_view masked_widened_part =
    R"(static inline {0} {0}_load_{5}_part(const {6}* p, u32 count) {{
  {0} x;
  __asm__("{3}%{{%2%}}%{{z%}}"
          : "=v"(x) : "m"(*(const {0}_{5}_in_memory*)p), "Yk"((u16)((1u << count) - 1)));
  __asm__("{4}" : "=v"(x) : "v"(x));
  return x;
}}
)";

}  // namespace

std::string CVectors::use(DType type) {
  if (type != in_lanes(type)) widened_.insert(type);
  type = in_lanes(type);
  used_.insert(type);
  return fmt::format("v{}{}", target_.lanes(type), c_type(type));
}

std::string CVectors::define(DType type) const {
  const auto width = static_cast<std::size_t>(target_.lanes(type));
  const std::string_view element = c_type(type);
  const std::string vector = fmt::format("v{}{}", width, element);
  const std::string copies =
      fmt::format("{}", fmt::join(std::vector<std::string_view>(width, "x"), ", "));
  const std::string numbers = fmt::format("{}", fmt::join(std::views::iota(0u, width), ", "));
  const char letter = size_of(type) == 8 ? 'd' : 's';
  const std::string_view mask = width > 8 ? "u16" : "u8";
  std::string text;
  PartsInRegisters parts;
  const auto add = [&](std::string_view part) {
    text += fmt::format(fmt::runtime(part), vector, element, target_.vector_bytes(), copies, letter,
                        mask, size_of(type) == 8 ? "i64" : "i32", numbers, parts.load, parts.store);
  };
  add(common);
  if (has_mask_registers(target_)) {
    parts = define_parts(vector, element, letter, mask, target_,
                         static_cast<std::int64_t>(size_of(type)));
    text += parts.types;
    add(masked_parts);
    if (size_of(type) == 4) add(pieces);
  } else {
    add(target_.isa == Isa::avx2 ? avx2_load : copied_load);
    add(copied_store);
  }
  if (streamed_.contains(type)) {
    text += fmt::format(streaming, vector, element, target_.vector_bytes(), copies,
                        stream_instruction(type, target_), lane_constraint(type, target_));
  }
  if (transposed_.contains(type)) text += define_transpose(type);
  if (type == DType::f32) {
    for (const DType each : widened_) text += define_widened(each);
  }
  return text;
}

std::string CVectors::define_widened(DType type) const {
  const bool half = type == DType::f16, masks = has_mask_registers(target_);
  const std::int64_t lanes = target_.lanes(DType::f32);
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  const char* const vector = lane_constraint(DType::f32, target_);
  const std::string_view stored = is_floating(type) ? "u16" : c_type(type);
  const std::string_view parts = masks ? (half ? masked_half_parts : masked_widened_part)
                                       : (half ? copied_half_parts : copied_widened_part);
  std::string text;
  for (const std::string_view part : {half ? halves : widened_whole, parts}) {
    text += fmt::format(fmt::runtime(part), fmt::format("v{}f32", lanes), lanes * bytes, vector,
                        widening(type), half ? narrow_to_half : after_widening(type),
                        half ? "half" : name(type), stored, bytes, bytes == 1 ? "m" : vector);
  }
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

/// The text after the name of the instruction's result.
std::string CVectors::define(const Prim& prim, const PrimFunction& function,
                             const std::string& result, const std::vector<std::string>& args) {
  const LaneForm form = lane_form(prim, function, target_);
  switch (form) {
    case LaneForm::constant:
      return fmt::format(" = {}_splat({});\n", use(prim.type), c_literal(prim.scalar));
    case LaneForm::table:
      return fmt::format(" = {{{}}};\n", c_literals(prim.entries));
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

}  // namespace heddle::jit
