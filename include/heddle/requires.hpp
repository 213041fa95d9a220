// heddle's requirements of compilers: a violation gives one line instead of pages of errors. Owns
// no data.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "heddle needs C++20: compile with -std=c++20 or later"
#include <heddle/needs-c++20>  // missing: compilers end here
#elif defined(__clang__) ? __clang_major__ < 16 : defined(__GNUC__) && __GNUC__ < 11
#error "heddle needs g++ 11 or clang 16, or later"
#include <heddle/needs-a-later-compiler>  // missing: compilers end here
#endif
