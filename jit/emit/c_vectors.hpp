// Vectors as C with vector extensions, which gcc and clang share: the types that a unit uses, and
// operations on them. Not thread-safe: one object per unit being emitted.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "jit/vector/lane_prims.hpp"

namespace heddle::jit {

class CVectors {
 public:
  explicit CVectors(const Target& target) : target_(target) {}
  /// "v16f32"; marks the type as used, so that definitions() defines it. For f16: the type of f32,
  /// and the conversions between the two.
  [[nodiscard]] std::string use(DType type);
  /// Adds the type's streaming stores to the definitions.
  void use_streams(DType type) { streamed_.insert(type); }
  /// Adds transposes of blocks of the type's vectors to the definitions.
  void use_transpose(DType type) { transposed_.insert(type); }
  /// The type of values in lanes of the size of `word`: a bool is a mask.
  [[nodiscard]] std::string value_type(DType type, DType word);
  /// The mask that holds the bool in all lanes.
  [[nodiscard]] std::string mask_splat(const std::string& value, DType word);
  /// The expression that applies `function` to vectors.
  [[nodiscard]] std::string apply(const PrimFunction& function,
                                  const std::vector<std::string>& args, DType word);
  [[nodiscard]] std::string definitions() const;

 private:
  [[nodiscard]] std::string define(DType type) const;
  [[nodiscard]] std::string define_transpose(DType type) const;
  /// Definitions of loads and stores of 16-bit elements as f32, with two instructions.
  [[nodiscard]] std::string define_16_bits(std::initializer_list<std::string_view> parts,
                                           std::string_view first, std::string_view second) const;
  std::string define(const PrimFunction& function, const std::string& name, DType word);
  std::string define(const Prim& prim, const PrimFunction& function, const std::string& result,
                     const std::vector<std::string>& args);

  Target target_;
  std::set<DType> used_, streamed_, transposed_;
  bool uses_half_ = false, uses_bf16_ = false;
  std::map<std::string, std::string> functions_;  // name -> definition
};

}  // namespace heddle::jit
