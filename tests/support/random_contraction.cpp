// See random_contraction.hpp.
#include "random_contraction.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

namespace heddle::jit::testing {
namespace {

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}

  Program make() {
    constexpr std::array types{f32, f32, f32, f64,  i32, i32, i32, u32,
                               i64, u64, f16, bf16, i8,  u8,  i16, u16};
    const DType type = types[below(types.size())];
    const std::int64_t rows = extent(), lanes = extent(), terms = extent(), batch = 1 + below(3);
    const bool batched = below(4) == 0;
    const std::int64_t window = below(4) == 0 ? 2 + below(2) : 1;
    const std::int64_t stride = 1 + below(2);
    const Index n(batch), i(rows), j(lanes), k(terms), w(window);
    const auto dims = [&](std::int64_t x, std::int64_t y, bool turned, bool with_batch) {
      Dims made = turned ? Dims{y, x} : Dims{x, y};
      if (with_batch) made.insert(made.begin(), batch);
      return made;
    };
    const auto at = [&](const Tensor& t, const Subscript& x, const Subscript& y, bool turned,
                        bool with_batch) {
      std::vector<Subscript> subscripts{turned ? y : x, turned ? x : y};
      if (with_batch) subscripts.insert(subscripts.begin(), n);
      return t.at(subscripts);
    };
    const bool a_turned = flip(), b_turned = flip(), c_turned = below(4) == 0;
    const bool b_batched = batched && flip();
    const bool narrow = type == i32 && below(4) > 0;  // factors small enough for terms in words
    const DType a_type = narrow ? few_bits() : type, b_type = narrow ? few_bits() : type;
    const Tensor a("a", a_type, dims(stride * (rows - 1) + window, terms, a_turned, batched));
    const Tensor b("b", b_type, dims(terms * window, lanes, b_turned, b_batched));
    const Tensor c("c", type, dims(rows, lanes, c_turned, batched));
    const Subscript row = window > 1 ? stride * Subscript(i) + w : stride * Subscript(i);
    const Subscript term = window > 1 ? window * Subscript(k) + w : Subscript(k);
    const Expr product = cast(factor(at(a, row, k, a_turned, batched), k), type) *
                         cast(factor(at(b, term, j, b_turned, b_batched), k), type);
    const Access target = at(c, i, j, c_turned, batched);
    Program p("contraction");
    switch (below(5)) {
      case 0:
        p << (target += product);
        return p;
      case 4:
        p << (target -= product);
        return p;
      case 1:
        p << (target = sum(product));
        return p;
      default:
        break;
    }
    // A virtual sum, and an operation on the sum.
    const Tensor bias("bias", type, {lanes}), y("y", type, c.dims());
    const Access result = at(y, i, j, c_turned, batched);
    p << (target = sum(product));
    if (below(3) == 0) {
      p << (result += max(target + bias(j), 0) * 2);
    } else {
      p << (result = target + bias(j));
    }
    return p;
  }

 private:
  std::int64_t below(std::uint64_t n) { return static_cast<std::int64_t>(random_() % n); }
  bool flip() { return below(2) == 0; }
  DType few_bits() {
    constexpr std::array types{i8, i8, u8, i16, u16, bool_};
    return types[below(types.size())];
  }
  /// The element, or a value computed from the element and the term's number.
  Expr factor(const Expr& element, const Index& k) {
    switch (below(8)) {
      case 0:
        return max(element, 0);
      case 1:
        return where(embed(k) % 3 == 1, 0, element);
      default:
        return element;
    }
  }
  std::int64_t extent() {
    switch (below(6)) {
      case 0:
        return 1 + below(4);
      case 1:
        return 16 * (1 + below(4));
      default:
        return 1 + below(40);
    }
  }

  std::mt19937_64 random_;
};

/// Statements over matrices, rows and columns of one size.
class RowMaker {
 public:
  explicit RowMaker(std::uint64_t seed) : random_(seed) {}

  Program make() {
    constexpr std::array types{f32, f32, f32, f64, i32, u32, i64, u64, f16};
    type_ = types[below(types.size())];
    rows_ = extent();
    columns_ = extent();
    matrices_ = {tensor("x", {rows_, columns_})};
    per_row_ = {tensor("r", {rows_})};
    per_column_ = {tensor("c", {columns_})};
    Program p("rows");
    for (std::size_t left = 2 + below(5); left > 0; --left) p << statement();
    return p;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::int64_t extent() {
    return static_cast<std::int64_t>(below(3) == 0 ? 1 + below(5) : 1 + below(90));
  }
  Tensor tensor(const char* label, const Dims& dims) {
    const Tensor made(label, type_, dims);
    if (below(2) == 0) made.set_mode(MemoryMode::never_virtual);
    return made;
  }
  const Tensor& any(const std::vector<Tensor>& from) { return from[below(from.size())]; }

  Expr number(int n) const { return cast(n, type_); }

  /// A value of the element (i, j) that grows slowly and keeps sums exact.
  Expr value(const Index& i, const Index& j) {
    const Expr x = any(matrices_)(i, j);
    switch (below(8)) {
      case 0:
        return x - any(per_row_)(i);
      case 1:
        return relu(x - any(per_column_)(j));
      case 2:
        return max(x, any(matrices_)(i, j));
      case 3:
        return where(x < any(per_row_)(i), number(1), number(2));
      case 4:
        return min(x, number(3)) * min(x, number(2));
      case 5:
        return x - trunc(any(per_row_)(i) / number(3));
      case 6:
        return max(x, trunc(any(per_column_)(j) / number(3)));
      default:
        return x;
    }
  }

  Statement statement() {
    const Index i(rows_), j(columns_);
    const Expr bounded = min(value(i, j), number(4));
    switch (below(7)) {
      case 0:
        per_row_.push_back(tensor("r", {rows_}));
        return per_row_.back()(i) = maximum(value(i, j));
      case 1:
        per_row_.push_back(tensor("r", {rows_}));
        return per_row_.back()(i) = sum(bounded);
      case 2:
        per_column_.push_back(tensor("c", {columns_}));
        return per_column_.back()(j) = sum(bounded);
      case 3:
        per_column_.push_back(tensor("c", {columns_}));
        return per_column_.back()(j) = minimum(value(i, j));
      case 4:
        return tensor("total", {})() += bounded;
      default:
        matrices_.push_back(tensor("y", {rows_, columns_}));
        return matrices_.back()(i, j) = value(i, j);
    }
  }

  std::mt19937_64 random_;
  DType type_ = f32;
  std::int64_t rows_ = 1, columns_ = 1;
  std::vector<Tensor> matrices_, per_row_, per_column_;
};

/// Statements over one space, whose tensors have its axes in any order.
class TransposeMaker {
 public:
  explicit TransposeMaker(std::uint64_t seed) : random_(seed) {}

  Program make() {
    // Two axes that may be split, among short axes.
    const std::size_t rank = std::max<std::size_t>(2, 1 + below(4));
    for (std::size_t axis = 0; axis < rank; ++axis)
      extents_.push_back(static_cast<std::int64_t>(axis < 2 ? 6 + below(40) : 1 + below(3)));
    std::ranges::shuffle(extents_, random_);
    for (const std::int64_t each : extents_) indices_.emplace_back(each);
    Program p("transpose");
    for (std::size_t left = 1 + below(2); left > 0; --left) p << statement();
    return p;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  /// A tensor with the axes in random order, larger than the space by strides and offsets.
  Access any(DType type) {
    std::vector<std::size_t> order(extents_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random_);
    Dims dims;
    std::vector<Subscript> at;
    for (const std::size_t axis : order) {
      const std::int64_t stride = below(12) == 0 ? 2 : 1;
      const std::int64_t offset = below(6) == 0 ? 1 : 0;
      dims.push_back(stride * (extents_[axis] - 1) + 1 + offset);
      at.push_back(stride * Subscript(indices_[axis]) + offset);
    }
    return Tensor("x", type, dims).at(at);
  }

  /// Any type, more often a type with vector instructions.
  DType any_type() {
    constexpr std::array types{f32, f32,  f64, i32, u32, i64, u64,
                               f16, bf16, i8,  u8,  i16, u16, bool_};
    return types[below(below(2) == 0 ? 7 : types.size())];
  }

  Statement statement() {
    const DType type = any_type();
    const Access target = any(type);
    if (type == bool_) return target = any(type);
    switch (below(6)) {
      case 0:
        return target += any(type);
      case 1:
        return target = any(type) * 2 - any(type);
      case 2:
        return target = cast(any(any_type()), type);
      case 3:
        return target = max(any(type), any(type)) + any(type) * any(type);
      default:
        return target = any(type);
    }
  }

  std::mt19937_64 random_;
  Dims extents_;
  std::vector<Index> indices_;
};

}  // namespace

Program random_transpose(std::uint64_t seed) { return TransposeMaker(seed).make(); }

Program random_rows(std::uint64_t seed) { return RowMaker(seed).make(); }

Program random_contraction(std::uint64_t seed) { return Maker(seed).make(); }

HostArray small_numbers(const ArrayType& type, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  HostArray array(type);
  for (std::int64_t k = 0; k < array.num_elements(); ++k)
    array.set(k, static_cast<double>(random() % 4));
  return array;
}

namespace {

Expr formed(FactorForm form, const Expr& element) {
  const Expr wide = cast(element, i32);
  switch (form) {
    case FactorForm::shifted:
      return wide - 128;
    case FactorForm::doubled:
      return wide * 2;
    case FactorForm::negative:
      return -max(wide, 0);
    default:
      return wide;
  }
}

}  // namespace

Program word_product(const WordFactors& of, std::int64_t rows, std::int64_t terms,
                     std::int64_t lanes) {
  const Tensor a("a", of.a, {rows, terms}), b("b", of.b, {terms, lanes}),
      c("c", i32, {rows, lanes});
  const Index i, j, k;
  Program program("product");
  program << (c(i, j) += formed(of.a_form, a(i, k)) * formed(of.b_form, b(k, j)));
  return program;
}

Program random_word_product(std::uint64_t seed) {
  constexpr DType types[] = {i8, u8, i16, bool_};
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const auto form = [&] { return static_cast<FactorForm>(below(4)); };
  const WordFactors of{types[below(4)], types[below(4)], form(), form()};
  const std::int64_t rows = 1 + below(40), terms = 1 + below(90);
  return word_product(of, rows, terms, 1 + below(80));
}

Program random_bf16_product(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const std::int64_t rows = 1 + below(40), terms = 1 + below(90), lanes = 1 + below(80);
  const bool a_across = below(2) == 0, b_across = below(2) == 0;
  const Tensor a("a", bf16, a_across ? Dims{terms, rows} : Dims{rows, terms}),
      b("b", bf16, b_across ? Dims{lanes, terms} : Dims{terms, lanes}), c("c", f32, {rows, lanes});
  const Index i, j, k;
  const Expr of_a = a_across ? a(k, i) : a(i, k), of_b = b_across ? b(j, k) : b(k, j);
  Program program("product");
  switch (below(3)) {
    case 0:
      program << (c(i, j) += of_a * of_b);
      break;
    case 1:
      program << (c(i, j) = sum(-of_a * relu(of_b)));
      break;
    default:
      program << (c(i, j) -= of_a * of_b);
  }
  return program;
}

HostArray any_bits(const ArrayType& type, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  HostArray array(type);
  auto* const bytes = static_cast<std::uint8_t*>(array.data());
  for (std::size_t k = 0; k < array.num_bytes(); ++k) {
    const auto bits = static_cast<std::uint8_t>(random() >> 32);
    bytes[k] = type.dtype == bool_ ? bits & 1U : bits;
  }
  return array;
}

Target tiny_target(Isa isa) {
  Target target;
  target.isa = isa;
  target.l1_bytes = 1 << 10;
  target.l2_bytes = 4 << 10;
  target.l3_bytes = 16 << 10;
  return target;
}

}  // namespace heddle::jit::testing
