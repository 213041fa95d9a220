// The operations of graphs with their NumPy names, for graph_cases. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"

namespace heddle::numpy {

using Nodes = std::vector<Node>;
using Types = std::vector<DType>;

inline const Types floats{DType::f16, DType::bf16, DType::f32, DType::f64};
inline const Types wide_floats{DType::f32, DType::f64};
inline const Types integers{DType::i8, DType::i16, DType::i32, DType::i64,
                            DType::u8, DType::u16, DType::u32, DType::u64};
inline const Types numbers = [] {
  Types all = floats;
  all.insert(all.end(), integers.begin(), integers.end());
  return all;
}();
inline const Types every = [] {
  Types all = numbers;
  all.push_back(DType::bool_);
  return all;
}();
inline const Types booleans{DType::bool_};
inline const Types signed_integers{DType::i8, DType::i16, DType::i32, DType::i64};
inline const Types unsigned_integers{DType::u8, DType::u16, DType::u32, DType::u64};
inline const Types halves{DType::f16, DType::bf16};
/// For operations that depend on shapes rather than on types.
inline const Types few{DType::f32, DType::i32};

/// One input array.
struct In {
  Dims dims;
  enum class Values : std::uint8_t {
    any,       ///< floats with NaN, infinities and -0 among them
    finite,    ///< whole numbers within 6, or floats within 3
    positive,  ///< above 0, otherwise like finite
    places,    ///< i64, from -1 to 5
    bits,      ///< of integers, any
    keys,      ///< u64, any bits
  } values = Values::finite;
};

struct OpCase {
  std::string family, name;
  Types types;
  std::vector<In> in;
  std::function<Node(const Graph&, const Nodes&)> make;
  std::string numpy;    ///< uses operands a, b, c, ...; floats are f64 in NumPy
  std::string shape{};  ///< "scalar", "empty"; empty text: the row's own shape
};

using V = In::Values;
inline const In special{{4, 6}, V::any}, matrix{{4, 6}}, positive{{4, 6}, V::positive}, row{{6}},
    batch{{2, 3, 4}}, other{{2, 4, 5}}, truths{{4, 6}}, scalar{{}}, nothing{{0, 6}}, none{{0, 3}},
    key{{}, V::keys};

using One = Node (*)(const Node&);
using Two = Node (*)(const Node&, const Node&);

class Cases {
 public:
  std::vector<OpCase> all;

  void family(std::string name) { family_ = std::move(name); }
  void one(std::string name, const Types& types, const In& in, One make, std::string numpy) {
    all.push_back({family_,
                   std::move(name),
                   types,
                   {in},
                   [make](const Graph&, const Nodes& x) { return make(x[0]); },
                   std::move(numpy)});
  }
  void two(std::string name, const Types& types, const In& a, const In& b, Two make,
           std::string numpy) {
    all.push_back({family_,
                   std::move(name),
                   types,
                   {a, b},
                   [make](const Graph&, const Nodes& x) { return make(x[0], x[1]); },
                   std::move(numpy)});
  }
  void more(std::string name, const Types& types, std::vector<In> in,
            std::function<Node(const Graph&, const Nodes&)> make, std::string numpy) {
    all.push_back(
        {family_, std::move(name), types, std::move(in), std::move(make), std::move(numpy)});
  }

 private:
  std::string family_;
};

void add_elementwise(Cases& c);
/// Every elementwise operation on scalars and on arrays without elements.
void add_shapes_of_elementwise(Cases& c);
void add_layout(Cases& c);
void add_contractions(Cases& c);
void add_reductions(Cases& c);
void add_indexing(Cases& c);
void add_order(Cases& c);
void add_neural(Cases& c);
void add_random(Cases& c);
void add_edges_of_layout(Cases& c);
void add_edges_of_sums(Cases& c);
void add_edges_of_places(Cases& c);
void add_rare_cases(Cases& c);

}  // namespace heddle::numpy
