// The vector functions of glibc's libmvec and of SLEEF, where installed: opened, not linked. Any
// thread.
#pragma once

#include <cstddef>
#include <string>

namespace heddle::bench {

class VectorFunction {
 public:
  /// Of f32, for the widest vectors here; `name` as in C: "exp". Throws unavailable.
  static VectorFunction libmvec(const std::string& name);
  /// The same; SLEEF's variant with an error within a unit of the last place.
  static VectorFunction sleef(const std::string& name);

  /// out[k] = f(x[k]); for count % 16 == 0.
  void operator()(std::size_t count, const float* x, float* out) const;

 private:
  explicit VectorFunction(void* function) : function_(function) {}
  void* function_;
};

}  // namespace heddle::bench
