// See vector/lane_prims.hpp. Instructions: Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2.
#include "jit/vector/lane_prims.hpp"

#include "jit/loop/rewrite.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::jit {
namespace {

bool is_wide(DType t) { return size_of(t) == 8; }
bool is_signed_integer(DType t) { return t == DType::i32 || t == DType::i64; }

/// "ps", "pd"
std::string_view packed(DType t) { return is_wide(t) ? "pd" : "ps"; }

/// Comparison predicates, ordered and quiet; integers use the low bits of them.
int predicate(PrimOp op, bool floating) {
  switch (op) {
    case PrimOp::lt:
      return floating ? 0x11 : 1;
    case PrimOp::le:
      return floating ? 0x12 : 2;
    case PrimOp::eq:
      return 0;
    default:
      return 4;  // for floats: or unordered
  }
}

bool is_either(std::string_view function, std::string_view f64_name) {
  return function == f64_name || (function.size() == f64_name.size() + 1 &&
                                  function.starts_with(f64_name) && function.ends_with('f'));
}

/// The rounding of a builtin: "__builtin_rintf" and the like, exceptions suppressed.
std::optional<int> rounding(std::string_view function) {
  if (is_either(function, "__builtin_rint")) return 0x8;
  if (is_either(function, "__builtin_floor")) return 0x9;
  if (is_either(function, "__builtin_ceil")) return 0xa;
  if (is_either(function, "__builtin_trunc")) return 0xb;
  return std::nullopt;
}

LaneForm conversion(DType from, DType to, const Target& target) {
  if (from == DType::bool_ || to == DType::bool_ || size_of(from) != size_of(to))
    return LaneForm::none;
  if (is_floating(from) == is_floating(to)) return LaneForm::same_bits;
  const bool all = target.isa >= Isa::avx512;
  const DType integer = is_floating(from) ? to : from;
  const bool narrow = target.isa == Isa::avx2 && integer == DType::i32;
  return all || narrow ? LaneForm::instruction : LaneForm::none;
}

std::string conversion_name(DType from, DType to) {
  const auto letters = [](DType t) -> std::string {
    if (is_floating(t)) return std::string(packed(t));
    return fmt::format("{}{}", is_signed_integer(t) ? "" : "u", is_wide(t) ? "qq" : "dq");
  };
  return fmt::format("vcvt{}{}2{} %1, %0", is_floating(from) ? "t" : "", letters(from),
                     letters(to));
}

LaneForm call_form(const Prim& prim, const Target& target) {
  if (is_either(prim.function, "__builtin_fabs")) return LaneForm::magnitude;
  const bool known = is_multiply_add(prim) || is_either(prim.function, "__builtin_sqrt") ||
                     rounding(prim.function).has_value();
  return known && target.has_fma() ? LaneForm::instruction : LaneForm::none;
}

}  // namespace

const char* widening(DType t) {
  switch (t) {
    case DType::f16:
      return widen_half;
    case DType::i8:
      return "vpmovsxbd %1, %0";
    case DType::i16:
      return "vpmovsxwd %1, %0";
    default:
      return size_of(t) == 1 ? "vpmovzxbd %1, %0" : "vpmovzxwd %1, %0";
  }
}
const char* after_widening(DType t) {
  if (t == DType::f16) return nullptr;
  return t == DType::bf16 ? "vpslld $16, %1, %0" : "vcvtdq2ps %1, %0";
}

bool is_lane_type(DType t) { return size_of(t) >= 4; }

bool is_multiply_add(const Prim& prim) noexcept {
  if (prim.op == PrimOp::dot2 || prim.op == PrimOp::dot4 || prim.op == PrimOp::dot_bf16)
    return true;
  return prim.op == PrimOp::call && is_either(prim.function, "__builtin_fma");
}

LaneForm lane_form(const Prim& prim, const PrimFunction& function, const Target& target) {
  const DType operand = num_operands(prim) == 0 ? prim.type : function.type_of(prim.args[0]);
  const bool masks = has_mask_registers(target);
  switch (prim.op) {
    case PrimOp::constant:
      return is_lane_type(prim.type) ? LaneForm::constant : LaneForm::none;
    case PrimOp::table:
      return target.has_fma() &&
                     prim.entries.size() == static_cast<std::size_t>(target.lanes(prim.type))
                 ? LaneForm::table
                 : LaneForm::none;
    case PrimOp::lookup:
      return LaneForm::instruction;
    case PrimOp::pairs:
      return target.isa >= Isa::avx2 ? LaneForm::instruction : LaneForm::none;
    case PrimOp::dot2:
    case PrimOp::dot4:
      return target.isa >= Isa::avx512_vnni ? LaneForm::instruction : LaneForm::none;
    case PrimOp::dot_bf16:
      return target.isa >= Isa::avx512_bf16 ? LaneForm::instruction : LaneForm::none;
    case PrimOp::add:
    case PrimOp::sub:
    case PrimOp::mul:
    case PrimOp::shl:
    case PrimOp::shr:
      return LaneForm::infix;
    case PrimOp::div:
      return is_floating(operand) ? LaneForm::infix : LaneForm::none;
    case PrimOp::neg:
      return LaneForm::negate;
    case PrimOp::bit_and:
    case PrimOp::bit_or:
    case PrimOp::bit_xor:
      if (operand != DType::bool_) return LaneForm::infix;
      return masks ? LaneForm::mask_infix : LaneForm::instruction;
    case PrimOp::lt:
    case PrimOp::le:
    case PrimOp::eq:
    case PrimOp::ne:
      if (masks && is_lane_type(operand)) return LaneForm::instruction;
      return target.isa == Isa::avx2 && is_floating(operand) ? LaneForm::instruction
                                                             : LaneForm::none;
    case PrimOp::scale:
      return has_scaling(target) ? LaneForm::instruction : LaneForm::none;
    case PrimOp::larger:
    case PrimOp::smaller:
      return target.has_fma() ? LaneForm::instruction : LaneForm::none;
    case PrimOp::select:
      return target.has_fma() && is_lane_type(prim.type) ? LaneForm::instruction : LaneForm::none;
    case PrimOp::cast:
      return conversion(operand, prim.type, target);
    case PrimOp::bits:
      return LaneForm::same_bits;
    case PrimOp::call:
      return call_form(prim, target);
    case PrimOp::rem:
    case PrimOp::variable:
    case PrimOp::assign:
    case PrimOp::loop:
    case PrimOp::leave_if:
    case PrimOp::end_loop:
      return LaneForm::none;
  }
  return LaneForm::none;
}

std::string lane_instruction(const Prim& prim, const PrimFunction& function, const Target& target) {
  const DType operand = function.type_of(prim.args[0]);
  const bool masks = has_mask_registers(target);
  switch (prim.op) {
    case PrimOp::bit_and:
      return "vandps %2, %1, %0";
    case PrimOp::bit_or:
      return "vorps %2, %1, %0";
    case PrimOp::bit_xor:
      return "vxorps %2, %1, %0";
    case PrimOp::lt:
    case PrimOp::le:
    case PrimOp::eq:
    case PrimOp::ne:
      if (is_floating(operand))
        return fmt::format("vcmp{} ${}, %2, %1, %0", packed(operand), predicate(prim.op, true));
      return fmt::format("vpcmp{}{} ${}, %2, %1, %0", is_signed_integer(operand) ? "" : "u",
                         is_wide(operand) ? 'q' : 'd', predicate(prim.op, false));
    // Where both sources are zero, or either is NaN, the instructions return their second source:
    // in this order %1.
    case PrimOp::larger:
      return fmt::format("vmax{} %1, %2, %0", packed(prim.type));
    case PrimOp::smaller:
      return fmt::format("vmin{} %1, %2, %0", packed(prim.type));
    case PrimOp::scale:
      return fmt::format("vscalef{} %2, %1, %0", packed(prim.type));
    // The instruction takes the index modulo the number of lanes.
    case PrimOp::lookup:
      return "vpermps %1, %2, %0";
    case PrimOp::pairs:
      return "vpmaddwd %2, %1, %0";
    case PrimOp::dot2:
      return "vpdpwssd %2, %1, %0";
    case PrimOp::dot4:
      return "vpdpbusd %2, %1, %0";
    case PrimOp::dot_bf16:
      return "vdpbf16ps %2, %1, %0";
    case PrimOp::select:
      if (masks) return fmt::format("vblendm{} %2, %3, %0%{{%1%}}", packed(prim.type));
      return fmt::format("vblendv{} %1, %2, %3, %0", packed(prim.type));
    case PrimOp::cast:
      return conversion_name(operand, prim.type);
    default:
      break;
  }
  if (is_multiply_add(prim)) return fmt::format("vfmadd231{} %2, %1, %0", packed(prim.type));
  if (const auto mode = rounding(prim.function)) {
    return fmt::format("{}{} ${}, %1, %0", masks ? "vrndscale" : "vround", packed(prim.type),
                       *mode);
  }
  return fmt::format("vsqrt{} %1, %0", packed(prim.type));
}

bool is_lane_function(const PrimFunction& function, std::size_t bytes, const Target& target) {
  const auto fits = [&](DType t) { return t == DType::bool_ || size_of(t) == bytes; };
  return bytes >= 4 && fits(function.result) && std::ranges::all_of(function.params, fits) &&
         std::ranges::all_of(function.code, [&](const Prim& prim) {
           return fits(prim.type) && lane_form(prim, function, target) != LaneForm::none;
         });
}

std::string stream_instruction(DType type, const Target& target) {
  if (target.isa < Isa::avx2) return {};
  const char letter = size_of(type) == 8 ? 'd' : 's';
  return fmt::format(
      "testb ${1}, %b1; jne 1f; vmovntp{0} %2, (%1); jmp 2f; 1: vmovup{0} %2, (%1); 2:", letter,
      target.vector_bytes() - 1);
}

bool has_streams(const Loop& loop, const Target& target) {
  if (stream_instruction(DType::f32, target).empty()) return false;
  bool found = false;
  walk(loop.body, [&found](const Stmt& stmt) { found = found || stmt.stream; });
  return found;
}

}  // namespace heddle::jit
