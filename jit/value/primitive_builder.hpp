// Writing primitive functions as C++ expressions: `a + b` appends an instruction. Used by
// primitives*.cpp only. Values point at their builder; one thread.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "heddle/status.hpp"
#include "jit/value/primitives.hpp"

namespace heddle::jit {

class PrimBuilder;

/// A parameter or the result of an instruction.
struct PrimValue {
  PrimBuilder* in = nullptr;
  std::uint32_t position = 0;
  DType type = DType::f32;
};

class PrimBuilder {
 public:
  PrimBuilder(std::string name, std::vector<DType> params, Isa isa = Isa::none) : isa_(isa) {
    function_.name = std::move(name);
    function_.params = std::move(params);
  }
  PrimBuilder(const PrimBuilder&) = delete;
  PrimBuilder& operator=(const PrimBuilder&) = delete;

  /// True if PrimOp::scale, and tables of 16 entries, may be used.
  [[nodiscard]] bool has_avx512() const noexcept { return isa_ >= Isa::avx512; }
  [[nodiscard]] Isa isa() const noexcept { return isa_; }
  [[nodiscard]] PrimValue param(std::uint32_t k) { return {this, k, function_.params.at(k)}; }

  PrimValue push(PrimOp op, DType type, std::initializer_list<PrimValue> args,
                 std::string_view function = {}) {
    Prim prim;
    prim.op = op;
    prim.type = type;
    prim.function = function;
    std::size_t k = 0;
    for (const PrimValue& arg : args) prim.args.at(k++) = arg.position;
    return push(prim);
  }
  PrimValue constant(DType type, double value) {
    Prim prim;
    prim.type = type;
    prim.scalar = Scalar::of_float(type, value);
    return push(prim);
  }
  PrimValue integer(DType type, std::int64_t value) {
    Prim prim;
    prim.type = type;
    prim.scalar = Scalar::of_int(type, value);
    return push(prim);
  }

  PrimValue table(std::span<const float> entries) {
    Prim prim;
    prim.op = PrimOp::table;
    prim.entries = entries;
    return push(prim);
  }

  void assign(PrimValue variable, PrimValue value) {
    push(PrimOp::assign, variable.type, {variable, value});
  }
  void loop() { push(PrimOp::loop, DType::bool_, {}); }
  void leave_if(PrimValue condition) { push(PrimOp::leave_if, DType::bool_, {condition}); }
  void end_loop() { push(PrimOp::end_loop, DType::bool_, {}); }

  [[nodiscard]] PrimFunction finish(PrimValue result) {
    function_.result = result.type;
    function_.value = result.position;
    return std::move(function_);
  }

 private:
  PrimValue push(const Prim& prim) {
    function_.code.push_back(prim);
    return {this, static_cast<std::uint32_t>(function_.params.size() + function_.code.size() - 1),
            prim.type};
  }

  PrimFunction function_;
  Isa isa_;
};

/// A constant of the type of `like`.
inline PrimValue like(PrimValue like, std::int64_t value) {
  return is_floating(like.type) ? like.in->constant(like.type, static_cast<double>(value))
                                : like.in->integer(like.type, value);
}

inline PrimValue operator+(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::add, a.type, {a, b});
}
inline PrimValue operator-(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::sub, a.type, {a, b});
}
inline PrimValue operator-(PrimValue a) { return a.in->push(PrimOp::neg, a.type, {a}); }
inline PrimValue operator*(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::mul, a.type, {a, b});
}
inline PrimValue operator/(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::div, a.type, {a, b});
}
inline PrimValue operator%(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::rem, a.type, {a, b});
}
inline PrimValue operator&(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::bit_and, a.type, {a, b});
}
inline PrimValue operator|(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::bit_or, a.type, {a, b});
}
inline PrimValue operator^(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::bit_xor, a.type, {a, b});
}
inline PrimValue operator<<(PrimValue a, int count) {
  return a.in->push(PrimOp::shl, a.type, {a, like(a, count)});
}
inline PrimValue operator>>(PrimValue a, int count) {
  return a.in->push(PrimOp::shr, a.type, {a, like(a, count)});
}
inline PrimValue operator<(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::lt, DType::bool_, {a, b});
}
inline PrimValue operator<=(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::le, DType::bool_, {a, b});
}
inline PrimValue operator==(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::eq, DType::bool_, {a, b});
}
inline PrimValue operator!=(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::ne, DType::bool_, {a, b});
}
inline PrimValue select(PrimValue condition, PrimValue yes, PrimValue no) {
  return yes.in->push(PrimOp::select, yes.type, {condition, yes, no});
}
/// a < b ? b : a; therefore a where either is NaN or both are zeros.
inline PrimValue larger(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::larger, a.type, {a, b});
}
/// b < a ? b : a; therefore a where either is NaN or both are zeros.
inline PrimValue smaller(PrimValue a, PrimValue b) {
  return a.in->push(PrimOp::smaller, a.type, {a, b});
}
/// The value itself when its type is already `to`.
inline PrimValue cast(PrimValue a, DType to) {
  return a.type == to ? a : a.in->push(PrimOp::cast, to, {a});
}
inline PrimValue same_bits(PrimValue a, DType to) { return a.in->push(PrimOp::bits, to, {a}); }
inline PrimValue is_nan(PrimValue a) { return a != a; }
/// `value` rounded to the floating type of `like`.
inline PrimValue real(PrimValue like, double value) { return like.in->constant(like.type, value); }
/// A function of C in its f32 or f64 form, by the type of the first argument. The compiler's
/// builtins are correctly rounded.
inline PrimValue call(std::string_view f32_name, std::string_view f64_name,
                      std::initializer_list<PrimValue> args) {
  const PrimValue first = *args.begin();
  return first.in->push(PrimOp::call, first.type, args,
                        first.type == DType::f32 ? f32_name : f64_name);
}
/// a * b + c, rounded once.
inline PrimValue fma(PrimValue a, PrimValue b, PrimValue c) {
  return call("__builtin_fmaf", "__builtin_fma", {a, b, c});
}
inline PrimValue magnitude(PrimValue a) { return call("__builtin_fabsf", "__builtin_fabs", {a}); }
/// Rounds to the nearest whole number, ties to even.
inline PrimValue rint(PrimValue a) { return call("__builtin_rintf", "__builtin_rint", {a}); }

/// Functions that are made on first use, and kept. Any thread. Owners must never be destroyed, as
/// compiles may run during exit.
template <std::size_t count>
class MadeFunctions {
 public:
  template <class Make>
  const PrimFunction& get(std::size_t k, const Make& make) {
    std::call_once(made_.at(k), [&] { functions_[k] = make(); });
    return functions_[k];
  }

 private:
  std::array<std::once_flag, count> made_;
  std::array<PrimFunction, count> functions_;
};

}  // namespace heddle::jit
