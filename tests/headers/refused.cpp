// Mistakes that compilers find: each marked line is one, and says what they have to say of it.
#include <heddle/heddle.hpp>

#include <string>

using namespace heddle;

void mistakes(float* values, const double* constant, const std::string& text, void (*function)()) {
  const Tensor a("a", f32, {4}), b("b", f32, {4});
  const Index i;
  Program p("p");
  p << (a(i) = b(i) * values);        // refused: a pointer is no value of an element
  p << (a(i) = constant);             // refused: a pointer is no value of an element
  p << (a(i) = b(i) + "3");           // refused: a pointer is no value of an element
  p << (a(i) = max(b(i), function));  // refused: a pointer is no value of an element
  p << (a(i) += text);                // refused: no match|no viable|no matching|invalid operands
  p << (a(i) = b(i) * nullptr);       // refused: nullptr
  p << (a(i) = b(i) * 'x');           // refused: no match|no viable|no matching|invalid operands
  p << (a(values) = b(i));            // refused: no match|no viable|no matching|invalid operands
  p << (a(true) = b(i));              // refused: no match|no viable|no matching|invalid operands
  a(i) = b(i);                        // refused: a statement does nothing until it is appended
  a(i) += b(i);                       // refused: a statement does nothing until it is appended
  a(i).max_with(b(i));                // refused: a statement does nothing until it is appended
  sum(b(i));                          // refused: nodiscard
}
